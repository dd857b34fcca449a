-- What a refusal tells is looked up once for a batch.

-- Kind and name of its scope, and the name of its budget; null until a refusal has asked for them.
alter type budget_internal.slot add attribute names text[];
-- Its key goes by a tokenizer: a closer bound of its input may be had.
alter type budget_internal.admission add attribute is_countable boolean;
