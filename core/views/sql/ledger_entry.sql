-- Title: Ledger entries
-- Grain: one entry (seq)
-- Evidence class: none
-- Source: the store's entry table; verifying the chain is `ledger verify`, not this view
-- Column seq: Its place in the chain, from 1.
-- Column at: Wall-clock time.
-- Column as_of: The clock the act was done under.
-- Column kind: What happened.
-- Column actor: Who acted.
-- Column identity: How that was known.
-- Column subject: What it is about.
-- Column body: Rows before and after as canonical JSON, texts as hashes.
-- Column prev: Hash of the entry before.
-- Column hash: Its own hash.
SELECT seq, "at", as_of, kind, actor, identity, subject, body, prev, hash
FROM store_entry
