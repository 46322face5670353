-- Title: Annotations
-- Grain: one annotation (id)
-- Evidence class: none; remarks belong to what they are about
-- Source: the store's annotation table
-- Column id: The annotation.
-- Column target_kind: What it is about: trace, case, run or record.
-- Column target_id: The id of what it is about.
-- Column label: A short label.
-- Column text: The reason; NULL where redacted or absent.
-- Column author: The actor who wrote it.
-- Column at: When.
-- Column replaces: The annotation it corrects.
-- Column replaced_by: The annotation that corrects it; NULL: it stands.
-- Column last_seq: The ledger entry that wrote it.
SELECT
    a.id, a.target_kind, a.target_id, a.label, a.text, a.author, a."at", a.replaces,
    later.id AS replaced_by,
    a.last_seq
FROM store_annotation AS a
LEFT JOIN store_annotation AS later ON later.replaces = a.id
