-- Title: Episodes by arm
-- Grain: one episode in one arm of one run (run_id, arm, seed, episode_id)
-- Evidence class: one a row; never pooled
-- Source: trace; an episode is right only if right in every boundary, so n counts episodes and never executions
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column arm: The causal condition.
-- Column seed: The generator's seed.
-- Column episode_id: The independent episode or case.
-- Column match_id: Its pair; a pair moves as one in the bootstrap.
-- Column family: The controlled episode's family.
-- Column source: The writing packet of a case.
-- Column stratum: The semantic group of a case.
-- Column delay: Number of distractor events.
-- Column expected_trigger: Whether something should fire.
-- Column executions: How many executions were folded, one a boundary.
-- Column boundaries: How many different boundaries they cover.
-- Column correct: Right in every boundary.
-- Column correct_same_process: Right in the same process; NULL where it was not run.
-- Column correct_restart: Right across the restart; NULL where it was not run.
-- Column acted: It acted in at least one boundary.
-- Column fired: Something fired in at least one boundary.
-- Column output_equal: The output equalled the paired baseline's in every boundary; NULL where no baseline is paired.
-- Column non_action: No intervention, and the output equal to the paired baseline's, in every boundary.
-- Column memory_write_ok: Records read back equal in every boundary; NULL where the arm writes none.
-- Column integrity_ok: Weights equal before and after in every boundary.
-- Column null_trial: The null path was taken in C3 in at least one boundary.
-- Column audit_passed: All four checks passed in every null trial; NULL where there was none.
-- Column copies_agree: Fired, record and action are equal across the boundaries; a disagreement is an error to show.
-- Column distractor_fires: How many distractor decisions fired in one execution; copies over boundaries are counted once.
-- Column whole: Whether all executions of the run are there (run_rows); rates count such runs only.
SELECT
    evidence_class, origin, contract, run_id, arm, seed, episode_id,
    any_value(match_id) AS match_id,
    any_value(family) AS family,
    any_value(source) AS source,
    any_value(stratum) AS stratum,
    any_value(delay) AS delay,
    bool_and(expected_trigger) AS expected_trigger,
    count(*) AS executions,
    max(CAST(boundary = 'same_process' AS TINYINT)) + max(CAST(boundary = 'restart' AS TINYINT)) AS boundaries,
    bool_and(correct) AS correct,
    bool_and(correct) FILTER (boundary = 'same_process') AS correct_same_process,
    bool_and(correct) FILTER (boundary = 'restart') AS correct_restart,
    bool_or(predicted_action IS NOT NULL) AS acted,
    bool_or(fired) AS fired,
    bool_and(output = baseline_output) AS output_equal,
    bool_and(intervention IS NULL AND coalesce(output = baseline_output, FALSE)) AS non_action,
    bool_and(memory_write_ok) AS memory_write_ok,
    bool_and(integrity_ok) AS integrity_ok,
    bool_or(null_trial) AS null_trial,
    -- A check that was not recorded is not passed.
    bool_and(coalesce(audit_passed, FALSE)) FILTER (null_trial) AS audit_passed,
    -- Not count(DISTINCT ...): three of them take four times as long.
    min(fired) = max(fired)
        AND min(coalesce(fired_record, '')) = max(coalesce(fired_record, ''))
        AND min(coalesce(predicted_action, '')) = max(coalesce(predicted_action, '')) AS copies_agree,
    max(distractor_fires) AS distractor_fires,
    any_value(whole) AS whole
FROM trace
JOIN run_rows USING (run_id)
GROUP BY ALL
