-- Title: Executions
-- Grain: one execution (trace_id)
-- Evidence class: every class, each row carries its own
-- Source: listed Parquet segments and the tail in the store (paper section 3.6)
-- Column outcome: What came of it, in words: right action, right silence, missed, false action, wrong record, wrong payload.
-- Column path: Which way the execution went: intervention (it acted) or null path (it did not).
-- Column pair_id: The pair it belongs to: run, seed, arm, boundary and match, equal for the positive and the negative.
-- Column twin_id: The same episode in the same arm across the boundaries: run, seed, arm and episode.
-- Column margin: Score minus threshold; at or above 0 the trigger fires. NULL where either is undefined.
-- Column audit_passed: Whether all four checks of the null audit passed; NULL off the null path.
-- Column restarted: Whether the process that answered is another than the one that wrote; NULL where either is unknown.
SELECT
    t.*,
    CASE t.error_kind
        WHEN 'missed' THEN 'missed'
        WHEN 'false' THEN 'false action'
        WHEN 'wrong_record' THEN 'wrong record'
        WHEN 'wrong_payload' THEN 'wrong payload'
        ELSE CASE WHEN t.expected_trigger THEN 'right action' ELSE 'right silence' END
    END AS outcome,
    CASE WHEN t.predicted_action IS NULL THEN 'null path' ELSE 'intervention' END AS path,
    concat_ws('/', t.run_id, t.seed, t.arm, t.boundary, t.match_id) AS pair_id,
    concat_ws('/', t.run_id, t.seed, t.arm, t.episode_id) AS twin_id,
    t.score - t.threshold AS margin,
    t.audit_no_retrieved_id AND t.audit_no_intervention AND t.audit_no_later_use AND t.audit_output_equal
        AS audit_passed,
    t.writer_pid <> t.responder_pid AS restarted
FROM stored_trace AS t
