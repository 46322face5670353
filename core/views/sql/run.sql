-- Title: Runs
-- Grain: one run (run_id)
-- Evidence class: one a row; never pooled
-- Source: the store's run table, the manifest of each run (paper section 3.6)
-- Column run_id: The run.
-- Column kind: controlled, transfer, redesign, factorized, followthrough, actuation.
-- Column evidence_class: What its rows may be used for.
-- Column origin: Who produced it.
-- Column status: running, complete, partial, failed or amended.
-- Column contract: Name of the frozen contract.
-- Column contract_sha256: Hash of the contract's bytes.
-- Column code_commit: Commit of the checkout; NULL where git is not there.
-- Column code_hash: Hash over core/ and models/.
-- Column evaluator_hash: Hash over the decision logic.
-- Column data_hash: Hash over the case data.
-- Column model_hash: Hash of the trigger's lock and weights.
-- Column backbone: Name and revision of the frozen backbone.
-- Column backbone_sha256: Hash over all its weights.
-- Column packages: Installed versions that matter, as JSON.
-- Column seeds: Generator seeds, as JSON.
-- Column planned: Executions planned.
-- Column stored: Executions stored.
-- Column started_at: When it began.
-- Column finished_at: When it ended; NULL while it runs.
-- Column elapsed_s: Seconds from begin to end; NULL while it runs.
-- Column device: Where it ran.
-- Column note: Limits, or the reason of a failure, in words; NULL where redacted or absent.
-- Column amends: The run it replaces.
-- Column amended_by: The run that replaced it.
-- Column last_seq: The ledger entry that wrote the row as it stands.
SELECT
    r.run_id, r.kind, r.evidence_class, r.origin, r.status, r.contract, r.contract_sha256, r.code_commit, r.code_hash,
    r.evaluator_hash, r.data_hash, r.model_hash, r.backbone, r.backbone_sha256, r.packages, r.seeds, r.planned,
    r.stored, r.started_at, r.finished_at,
    epoch(r.finished_at - r.started_at) AS elapsed_s,
    r.device, r.note, r.amends,
    (SELECT max(later.run_id) FROM store_run AS later WHERE later.amends = r.run_id) AS amended_by,
    r.last_seq
FROM store_run AS r
