"""What schemathesis has to be told about this server: how JSON lines are written, and whom it must leave alone."""
import json
import os

import schemathesis


@schemathesis.serializer("application/jsonl")
def jsonl(ctx, value):
    """An array is a line for each item; anything else (an invalid body) is one line."""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()


@schemathesis.hook
def filter_case(ctx, case):
    """Whoever asks must not disable or demote themselves: everything after that would be refused."""
    is_change = case.method.upper() == "PATCH" and case.operation.path == "/api/users/{id}"
    who = str((case.path_parameters or {}).get("id", ""))
    return not (is_change and who == os.environ.get("FUZZ_USER"))
