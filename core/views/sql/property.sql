-- Title: The six properties, counted
-- Grain: one property of one run (run_id, item)
-- Evidence class: one a row; never pooled
-- Source: trace; paper section 3.3, table 2. An episode holds only if all its executions do. Of a run that is not whole (run_rows) n is 0, k and failing are NULL
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column item: P1 to P6.
-- Column requirement: The paper's requirement, shortened.
-- Column k: Episodes of which it holds in every execution looked at.
-- Column n: Episodes looked at.
-- Column executions: Executions looked at.
-- Column failing: Executions of which it does not hold.
WITH parsed AS (
    SELECT
        *,
        -- Parsed only where a property looks at them.
        CASE WHEN memory_write_ok IS NOT NULL
            THEN from_json(records, '[{"record_id": "VARCHAR", "condition": "VARCHAR", "payload": "VARCHAR"}]')
            END AS recs,
        CASE WHEN arm = 'C3' THEN from_json(decisions, '[{"event": "BIGINT", "record_id": "VARCHAR"}]') END AS decs,
        CASE WHEN arm = 'C3' THEN json_array_length(events) END AS n_events
    FROM trace
),
-- An execution that a property does not look at has NULL.
checked AS (
    SELECT
        evidence_class, origin, contract, run_id, seed, episode_id,
        backbone_hash_before = backbone_hash_after AS p1,
        CASE WHEN memory_write_ok IS NOT NULL AND boundary = 'restart'
            THEN memory_write_ok AND store_reopened AND writer_pid IS NOT NULL
                AND writer_pid IS DISTINCT FROM responder_pid END AS p2,
        CASE WHEN memory_write_ok IS NOT NULL
            THEN len(recs) > 0
                AND len(list_distinct(list_transform(recs, lambda r: r.record_id))) = len(recs)
                AND list_bool_and(list_transform(recs, lambda r:
                    regexp_matches(r.condition, '\S') AND regexp_matches(r.payload, '\S')
                    AND NOT contains(r.condition, r.payload) AND NOT contains(r.payload, r.condition))) END AS p3,
        CASE WHEN arm = 'C3'
            THEN len(decs) = decisions_expected
                AND len(list_distinct(list_transform(decs, lambda d: d.event || '/' || d.record_id))) = len(decs)
                AND coalesce(list_bool_and(list_transform(decs, lambda d: d.event >= 0 AND d.event < n_events)), TRUE)
            END AS p4,
        CASE WHEN arm = 'C3'
            THEN CASE WHEN fired THEN coalesce(predicted_action = payload_bound, FALSE)
                ELSE predicted_action IS NULL END END AS p5,
        CASE WHEN arm = 'C3' AND null_trial THEN coalesce(audit_passed, FALSE) END AS p6
    FROM parsed
),
by_episode AS (
    SELECT
        evidence_class, origin, contract, run_id, seed, episode_id,
        unnest([
            {item: 'P1', held: bool_and(p1), looked: count(p1), failed: count(*) FILTER (NOT p1)},
            {item: 'P2', held: bool_and(p2), looked: count(p2), failed: count(*) FILTER (NOT p2)},
            {item: 'P3', held: bool_and(p3), looked: count(p3), failed: count(*) FILTER (NOT p3)},
            {item: 'P4', held: bool_and(p4), looked: count(p4), failed: count(*) FILTER (NOT p4)},
            {item: 'P5', held: bool_and(p5), looked: count(p5), failed: count(*) FILTER (NOT p5)},
            {item: 'P6', held: bool_and(p6), looked: count(p6), failed: count(*) FILTER (NOT p6)}
        ], recursive := TRUE)
    FROM checked
    GROUP BY evidence_class, origin, contract, run_id, seed, episode_id
)
SELECT
    evidence_class, origin, contract, run_id, item,
    CASE item
        WHEN 'P1' THEN 'Frozen pretrained backbone'
        WHEN 'P2' THEN 'System-written persistent memory'
        WHEN 'P3' THEN 'Write-time future-condition binding'
        WHEN 'P4' THEN 'Later trigger detection'
        WHEN 'P5' THEN 'Selective memory-dependent intervention'
        WHEN 'P6' THEN 'Reachable exact null path'
    END AS requirement,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (held) END AS k,
    count(held) FILTER (whole) AS n,
    sum(looked)::BIGINT AS executions,
    CASE WHEN bool_and(whole) THEN sum(failed)::BIGINT END AS failing
FROM by_episode
JOIN run_rows USING (run_id)
GROUP BY ALL
