import os

from hypothesis import HealthCheck, settings

# WEIR_TEST_EXAMPLES sets the number of examples, which is lower with a sanitizer.
settings.register_profile(
    "weir", deadline=None, print_blob=True,
    max_examples=int(os.environ.get("WEIR_TEST_EXAMPLES", 500)),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("weir")
