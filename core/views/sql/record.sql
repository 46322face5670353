-- Title: Records
-- Grain: one stored record (namespace, record_id)
-- Evidence class: none; a record belongs to its store or episode
-- Source: the store's record table (paper section 3.2)
-- Column row_id: Order of writing.
-- Column namespace: The store or episode it belongs to.
-- Column record_id: Its id within the namespace.
-- Column condition: The condition's text; NULL once redacted.
-- Column payload: The payload's text; NULL once redacted.
-- Column state: active, replaced, cancelled or expired.
-- Column expires_at: From this instant on it is expired; NULL: never.
-- Column supersedes: The record it replaced.
-- Column intention_id: The typed obligation it belongs to.
-- Column written_step: Position of its write among the operations.
-- Column ended_step: Position of the operation that ended it; NULL while it stands.
-- Column last_seq: The ledger entry that wrote the row as it stands.
SELECT
    row_id, namespace, record_id, condition, payload, state, expires_at, supersedes, intention_id, written_step,
    ended_step, last_seq
FROM store_record
