"""What schemathesis has to be told about this server: how JSON lines are written."""
import json

import schemathesis


@schemathesis.serializer("application/jsonl")
def jsonl(ctx, value):
    """An array is a line for each item; anything else (an invalid body) is one line."""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()
