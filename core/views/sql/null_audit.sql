-- Title: Null-path audit
-- Grain: one family and boundary of one arm of one run (run_id, arm, family, boundary)
-- Evidence class: one a row; never pooled
-- Source: trace, null trials only (paper section 3.4, four checks). Of a run that is not whole (run_rows) n is 0 and the rest NULL
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column arm: The causal condition.
-- Column family: The controlled episode's family.
-- Column boundary: What lay between writing and event.
-- Column n: Null trials, one an episode here.
-- Column no_retrieved_id: Those passing check 1.
-- Column no_intervention: Those passing check 2.
-- Column no_later_use: Those passing check 3.
-- Column output_equal: Those passing check 4.
-- Column passed: Those passing all four.
-- Column not_audited: Those with a check that was not recorded; never counted as passed.
-- Column regenerated: Those whose output was generated anew, past the cache.
SELECT
    evidence_class, origin, contract, run_id, arm, family, boundary,
    count(*) FILTER (whole) AS n,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (audit_no_retrieved_id) END AS no_retrieved_id,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (audit_no_intervention) END AS no_intervention,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (audit_no_later_use) END AS no_later_use,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (audit_output_equal) END AS output_equal,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (audit_passed) END AS passed,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (
        audit_no_retrieved_id IS NULL OR audit_no_intervention IS NULL
        OR audit_no_later_use IS NULL OR audit_output_equal IS NULL
    ) END AS not_audited,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (regenerated) END AS regenerated
FROM trace
JOIN run_rows USING (run_id)
WHERE null_trial
GROUP BY ALL
