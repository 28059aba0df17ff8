"""Hooks of schemathesis: the encoding of JSON lines, and requests that the fuzzer must not send."""
import json
import os

import schemathesis


@schemathesis.serializer("application/jsonl")
def jsonl(ctx, value):
    """Writes one line for each item of an array. Any other value is an invalid body and becomes one line."""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()


@schemathesis.hook
def filter_case(ctx, case):
    """Drops requests that disable or demote the fuzzer's own account, or end its sessions: the server would refuse all
    later requests."""
    if case.operation.path == "/api/auth/logout" and isinstance(case.body, dict) and case.body.get("everywhere"):
        return False
    is_change = case.method.upper() == "PATCH" and case.operation.path == "/api/users/{id}"
    user = str((case.path_parameters or {}).get("id", ""))
    return not (is_change and user == os.environ.get("FUZZ_USER"))
