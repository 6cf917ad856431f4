-- name: gate
-- What a role needs to go through migration gates, and nothing more.
GRANT USAGE ON SCHEMA interlock TO :role;
GRANT SELECT ON interlock.migration TO :role;
GRANT EXECUTE ON FUNCTION interlock.now_v1() TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_run TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_witness TO :role;
GRANT SELECT, INSERT, UPDATE ON interlock.gate_step TO :role;
GRANT SELECT, INSERT ON interlock.gate_intervention TO :role;
