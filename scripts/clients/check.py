"""Runs the checks of one Python client: check.py MODULE URL. Prints the name of each check that passed."""
import importlib, sys

import openai._base_client as base

initialize = base.BaseClient.__init__


def strict(self, *, _strict_response_validation, **options):
    """Packages that use openai-python get its strict mode: an answer that does not match a type is an error."""
    initialize(self, _strict_response_validation=True, **options)


base.BaseClient.__init__ = strict
for part in importlib.import_module(sys.argv[1]).run(sys.argv[2]):
    print(part, flush=True)
