"""One Hypothesis profile for all tests: repeatable, without a deadline (timing belongs in benchmarks)."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "specgrad",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("specgrad")
