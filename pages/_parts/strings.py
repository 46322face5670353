"""The long texts of the pages, in one place, in the reader's words."""

from __future__ import annotations

ASSERTED = (
    "Asserted: the console takes the operating system's word for who you are. It listens on this machine only, "
    "and every entry you make is marked as asserted."
)
NO_SCHEDULER = "no scheduler yet"
NO_SCHEDULER_HELP = "Nothing runs by itself in this workspace: evaluations are started from a shell."
AS_OF_HELP = "Everything on this page was read at one moment: as of this entry of the ledger."
CLASS_HELP = "Evidence classes are never pooled: a number belongs to one class, one origin and one contract."

PICK_A_CLASS = "Several evidence classes are stored: they are never added up. Pick one to see counts."
DRIFT = "The code has changed since this run was made; this re-executes a part of it and compares every column:"
DRIFT_COMMAND = "python -m core evidence verify --rerun 20"

NO_RUN = "No complete controlled run is stored in this workspace."
RUN_NEXT = "From a shell, run the controlled evaluation (7,200 executions), or a short demonstration of it:"
RUN_COMMANDS = "python -m core evaluate controlled\npython -m core evaluate controlled --limit 20"
NO_TRACES = "No execution is stored yet."
NO_MATCH = "No execution matches this filter."
NO_MATCH_NEXT = "Take a condition away above, or clear the filter."
UNEXPECTED = (
    "This page could not be shown. Nothing was changed; the details are in the log of the console. "
    "Reload the page, or ask what is missing from a shell:"
)

CLAIMS_HELP = (
    "A claim is established only when every criterion of its frozen contract is met; one that is not met rejects it. "
    "What nobody tested is not claimed."
)
ARMS_HELP = (
    "An episode is right in an arm only if it is right in both boundaries; n counts episodes. "
    "Intervals are Wilson's, 95%."
)
CRITERIA_HELP = (
    "Margin above 0: on the allowed side. Where the statistic is ci_low, the lower end of the interval has to pass."
)
GENERATOR_MATCHED = (
    "Generator-matched: the episodes come from the kind of templates that trained the trigger, with other subjects and "
    "template sets. This shows how the mechanism works, not how it does on wording nobody generated."
)
PROPERTIES_HELP = "Counted from the rows of the run, over arms and boundaries; an episode counts if all its rows do."
LEDGER_HELP = (
    "A chain without a key finds edits, removals and re-ordering, but cannot exclude that somebody rewrote all of it. "
    "Export the head and keep it elsewhere to anchor it."
)
RUNS_HELP = "Every run that was started, with the way it ended. Failed runs stay."

SEARCH_PLACEHOLDER = "Paste an id (trace, episode, run), or words of an event"
CHART_TABLE = "The table behind this chart"
ALL_RUNS = "All runs, and how this was asked"
ASKED = "How this was asked"
WATERFALL_HELP = (
    "Working time only: waits between processes are left out. Writing, the boundary and the hash over the weights "
    "stand outside the time it took to answer. Hover for the status of a step."
)
EFFECTS_HELP = (
    "The difference in log-odds to the same pair with that one feature at its mean over the training pairs, asked of "
    "the locked trigger now. Effects do not add up: the trigger is no sum of features."
)
PATH_HELP = "The system path of the paper's Figure 1. Filled and thick: the way this execution went."
PROPOSAL_HELP = "What the backbone would have said by itself is a diagnostic, never the action."
ARMS_BESIDE_HELP = "Same run, seed, episode and boundary; only the arm differs."
OUTSIDE_THE_LIST = "This execution is outside the filter of the list you came from, so it has no neighbours in it."
MUTANTS_INTRO = (
    "An audit that cannot fail proves nothing. Four faulty controllers answer the same event; each must fail exactly "
    "its own check. Nothing is stored."
)
ANNOTATIONS_HELP = "Remarks are never changed or deleted; a correction is a new one that names the old."
