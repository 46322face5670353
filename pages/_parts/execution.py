"""One execution, answer first: the sentence, the pair beside the event, the decision, the way it went, the audit.

Shows what the trace holds and nothing else; every text of a user or a model is drawn as text.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.acts import judge
from core.errors import DuebookError
from core.figures.features import feature_bars, score_strip
from core.figures.system_path import path_in_words, system_path
from core.figures.tables import audit_table, decision_table, record_table
from core.figures.waterfall import step_table, waterfall
from core.figures.wording import ARM_TITLES, BOUNDARY_TITLES, belongs_to, duration, moved, number, verdict
from core.records.trace import Trace
from core.triggers.learned.features import FEATURE_NAMES
from pages._parts import show, strings, times
from pages._parts.literal import literal


def headline(trace: Trace) -> None:
    """Say the outcome in one sentence, then where it belongs."""
    icon = ":material/check_circle:" if trace.correct else ":material/cancel:"
    st.subheader(literal(verdict(trace)), icon=icon, anchor=False)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.badge(literal(ARM_TITLES[trace.arm]), color="primary")
        st.badge(literal(BOUNDARY_TITLES[trace.boundary]), color="gray")
        st.badge(literal(trace.evidence_class), icon=":material/verified:", color="gray", help=strings.CLASS_HELP)
        st.code(trace.trace_id, language=None, width="content")
    st.caption(
        f"{literal(belongs_to(trace))} · {literal(times.shown(trace.created_at))} · "
        f"answered in {literal(duration(trace.elapsed_us))}"
    )


def pair(trace: Trace) -> None:
    """Show condition and event side by side, the payload beside them."""
    condition, event, payload = st.columns(3)
    bound = trace.payload_bound or next((r.payload for r in trace.records if r.condition == trace.condition_text), None)
    with condition:
        show.text("Condition, stored earlier", trace.condition_text, missing="This arm stores none.")
    with event:
        show.text("Event, arrived later", trace.event_text)
    with payload:
        show.text("Payload bound to the condition", bound, missing="This arm stores none.")


def way(trace: Trace) -> None:
    """Draw Figure 1 with the path taken lit."""
    st.markdown("#### The way it went", help=strings.PATH_HELP)
    show.chart(system_path(trace), key="system_path", alt=path_in_words(trace))


def decision(trace: Trace) -> None:
    """Show the score beside the threshold, and what it was made of."""
    st.markdown("#### Decision")
    scores = [d.score for d in trace.decisions if d.score is not None]
    if not scores:
        st.text("No score was given: this arm asks no trigger, or no record was active.")
        return
    judged = "—" if trace.score is None else number(trace.score)
    limit = "—" if trace.threshold is None else number(trace.threshold)
    st.caption(
        f"{literal(trace.trigger)}: score {literal(judged)}, threshold {literal(limit)} · "
        f"{literal(len(trace.decisions))} of {literal(trace.decisions_expected)} decisions stored, "
        f"{literal(trace.distractor_fires)} fired on a distractor"
    )
    strip = score_strip(scores, trace.threshold, judged=trace.score)
    show.chart(strip, key="score_strip", alt=f"score {judged}, threshold {limit}")
    if trace.features is not None:
        table = _effects(trace, trace.features)
        show.chart(
            feature_bars(FEATURE_NAMES, trace.features), key="features", alt="the 16 features of the pair", table=table
        )


def _effects(trace: Trace, features: tuple[float, ...]) -> pd.DataFrame:
    """Say which features moved the score, where the trigger that gave it is at hand; return the table of features."""
    values = pd.DataFrame({"feature": list(FEATURE_NAMES), "value": list(features)})
    if trace.trigger != judge.PAPERS_TRIGGER:
        return values
    try:
        effects = judge.feature_effects(features)
    except DuebookError:  # the page stands without; `doctor` says what is wrong with the trigger
        return values
    st.caption(literal(moved(effects)), help=strings.EFFECTS_HELP)
    return effects


def steps(trace: Trace) -> None:
    """Show the eight steps against working time, with their words beside."""
    st.markdown("#### Eight steps", help=strings.WATERFALL_HELP)
    drawing, told = st.columns([5, 6], gap="large")
    with drawing:
        show.chart(waterfall(trace), key="waterfall", alt="the eight steps and how long each took")
    with told, st.container(gap=None):
        for row in step_table(trace).to_dict("records"):
            took = f" · {row['took']}" if row["took"] else ""
            st.markdown(f"{literal(row['icon'])} **{literal(row['step'])}** {literal(row['status'])}{literal(took)}")
            st.caption(literal(row["detail"]))


def outputs(trace: Trace) -> None:
    """Show what came out, the system's action apart from what the backbone said."""
    st.markdown("#### Outputs", help=strings.PROPOSAL_HELP)
    left, right = st.columns(2)
    with left:
        show.text("System's action", trace.predicted_action, missing="It did not act.")
        show.text("Expected action", trace.expected_payload, missing="None: silence was right.")
    with right:
        show.text("Output", trace.output, missing="Not recorded.")
        show.text("Output without memory (paired C0)", trace.baseline_output, missing="No C0 run is paired.")
    proposal = "The backbone's own proposal (a diagnostic, never the action)"
    show.text(proposal, trace.model_action, missing="Not asked on this path.", beside=False)


def null_audit(trace: Trace) -> None:
    """Show the four checks of the null path, or why there are none."""
    st.markdown("#### Null audit")
    table = audit_table(trace)
    if table.empty:
        st.text("Not audited: the null path was not taken in the complete arm.")
        return
    show.words(table, alt="the four checks of the null audit")
    again = "yes" if trace.regenerated else "no"
    prompt = (trace.prompt_sha256 or "not recorded")[:16]
    st.caption(f"Output regenerated past the cache: {literal(again)} · prompt SHA-256 begins {literal(prompt)}")


def decisions(trace: Trace) -> None:
    """List every stored decision: each distractor and the final event against each active record."""
    table = decision_table(trace)
    show.rows(table, key="decisions", height=min(420, 32 * len(table) + 40))


def provenance(trace: Trace) -> None:
    """Show which processes, weights and run are behind the execution."""
    show.facts(
        {
            "run": trace.run_id,
            "execution key": trace.execution_key,
            "contract": trace.contract or "none",
            "origin": trace.origin,
            "backbone": trace.backbone,
            "weights before": trace.backbone_hash_before,
            "weights after": trace.backbone_hash_after,
            "weights unchanged": "yes" if trace.integrity_ok else "NO",
            "device": trace.device,
            "writing process": str(trace.writer_pid or "not recorded"),
            "answering process": str(trace.responder_pid or "not recorded"),
            "store reopened after the exit": "yes" if trace.store_reopened else "no",
            "records read back equal": {True: "yes", False: "NO", None: "this arm writes none"}[trace.memory_write_ok],
        }
    )


def records(trace: Trace) -> None:
    """List every record as it stood when the final event came."""
    show.rows(record_table(trace), key="records")
