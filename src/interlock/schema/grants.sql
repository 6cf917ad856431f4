-- name: gate
-- Privileges to pass migration gates, and nothing more.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION interlock.now_v1() TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_run TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_witness TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_step TO :role;
GRANT SELECT, INSERT ON interlock.gate_intervention TO :role;

-- name: leases
-- Privileges to use leases: functions, and no tables.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION
    interlock.now_v1(), interlock.timeline_v1(), interlock.epoch_v1(), interlock.listen_v1(integer),
    interlock.waits_v1(integer, timestamptz, timestamptz, timestamptz), interlock.register_v1(text[]),
    interlock.offer_v1(text[], integer),
    interlock.acquire_many_v1(text[], uuid[], double precision[], jsonb[], boolean[], text, text, integer, integer, boolean),
    interlock.grant_v1(bigint, uuid), interlock.renew_many_v1(text[], bytea, double precision[]),
    interlock.release_many_v1(text[], bigint[], uuid[], integer, boolean), interlock.abandon_many_v1(text[], uuid[], integer),
    interlock.acquire_v1(text, uuid, double precision, text, jsonb, boolean, text, integer, integer, boolean),
    interlock.renew_v1(text, bigint, uuid, double precision), interlock.release_v1(text, bigint, uuid, integer, boolean),
    interlock.abandon_v1(text, uuid), interlock.guard_v1(text, bigint, uuid), interlock.guarded_v1(),
    interlock.protect_v1(regclass, text), interlock.guards_v1(text), interlock.leases_v1(text),
    interlock.waiters_v1(text), interlock.sweep_v1(double precision), interlock.held_v1(text),
    interlock.wanted_v1(text), interlock.read_record_v1(text), interlock.write_record_v1(text, json, text, bigint, uuid),
    interlock.forget_records_v1(text, double precision)
TO :role;
GRANT EXECUTE ON PROCEDURE
    interlock.hand_on_v1(text, bigint, uuid, integer, text, uuid, boolean, bigint, double precision)
TO :role;

-- name: orchestrations
-- Privileges to request and run orchestrations. The engine's own schema has to belong to the role.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT SELECT, INSERT, UPDATE, DELETE ON interlock.orchestration, interlock.attempt TO :role;
GRANT EXECUTE ON FUNCTION
    interlock.now_v1(), interlock.record_orchestration_v1(text, text, text, jsonb, text, text),
    interlock.cancel_orchestration_v1(text, text), interlock.read_orchestration_v1(text),
    interlock.begin_attempt_v1(text, text, bigint, integer),
    interlock.fence_v1(text, text, bigint, integer, bigint)
TO :role;

-- name: operations
-- Privileges of operators, beyond those for leases: to break a lease, and to read who broke one.
GRANT SELECT ON interlock.lease_intervention TO :role;
GRANT EXECUTE ON FUNCTION interlock.break_v1(text, boolean, boolean, text, text) TO :role;

-- name: claims
-- Privileges to claim and release names: functions, and no tables.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION
    interlock.now_v1(), interlock.claim_lock_v1(text, text),
    interlock.claim_v1(text, text[], text, double precision, boolean),
    interlock.claim_one_v1(text, text, text, double precision, boolean),
    interlock.release_claim_v1(text, text, text, double precision, text), interlock.claims_v1(text, text, text, boolean)
TO :role;

-- name: instances
-- Privileges for instances, beyond those for claims and orchestrations.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION interlock.now_v1() TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.instance, interlock.instance_backup TO :role;
GRANT SELECT, INSERT, DELETE ON interlock.event, interlock.instance_check TO :role;
GRANT SELECT, INSERT, UPDATE, DELETE ON interlock.instance_drift TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.instance_look TO :role;

-- name: keys
-- Privileges to look up, create and revoke API keys.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION interlock.now_v1() TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.api_key TO :role;
