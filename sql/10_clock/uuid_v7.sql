-- budget_internal.uuid_v7: a time-ordered id (RFC 9562): 48 bits of Unix milliseconds, then random bits.
-- Postgres 18 has its own, 15 to 17 do not; one way on all of them.
create or replace function budget_internal.uuid_v7(p_at timestamptz) returns uuid
language sql volatile
as $$
  -- A random UUID has version 4 (0100): setting bits 52 and 53 makes it 7 (0111).
  select encode(set_bit(set_bit(overlay(
    uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from p_at) * 1000)::bigint) from 3) from 1 for 6
  ), 52, 1), 53, 1), 'hex')::uuid
$$;
revoke all on function budget_internal.uuid_v7(timestamptz) from public;
comment on function budget_internal.uuid_v7(timestamptz) is 'A UUIDv7 for the given time.';
