-- Title: Executions of a run, and whether they are all there
-- Grain: one run of which an execution can be read (run_id)
-- Evidence class: none; a run has one
-- Source: trace, the store's run table, and what was left out of the listed segments
-- Column run_id: The run.
-- Column stored: Executions that the run says it stored; NULL where it has no manifest, as live executions.
-- Column present: Executions that can be read.
-- Column left_out: Listed segments of it that are left out because they are missing, altered or damaged.
-- Column whole: Whether nothing is left out, no execution is there twice, and as many are present as stored. Rates count such runs only.
SELECT
    held.run_id,
    run.stored,
    held.executions AS present,
    coalesce(lost.files, 0) + (SELECT count(*) FROM left_out_segment WHERE run_id IS NULL) AS left_out,
    coalesce(lost.files, 0) = 0
        AND NOT EXISTS (SELECT 1 FROM left_out_segment WHERE run_id IS NULL)
        AND held.executions = held.ids
        AND held.executions = coalesce(run.stored, held.executions) AS whole
FROM (
    SELECT run_id, count(*) AS executions, count(DISTINCT trace_id) AS ids FROM stored_trace GROUP BY run_id
) AS held
LEFT JOIN store_run AS run ON run.run_id = held.run_id
LEFT JOIN (SELECT run_id, count(*) AS files FROM left_out_segment GROUP BY run_id) AS lost
    ON lost.run_id = held.run_id
