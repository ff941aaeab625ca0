"""The windows of the calendar against their model, zones.py."""

import functools
import os
import pathlib
import subprocess
import zoneinfo
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings, strategies as st
from zones import DAY, LENGTH, S, clock, seconds, window

BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", "build"))
PROBE = BUILD / "tests/model/calendar_windows"

UNITS = ["s", "ns", "ms", "m", "h", "d", "w", "month", "year"]  # as enum weir_unit
LONGEST = {**{unit: 366 * DAY // length for unit, length in LENGTH.items()}, "month": 12, "year": 1}

# Drawn as often as all the others together.
ODD_ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Beirut",
             "America/Havana", "Pacific/Apia", "Asia/Kathmandu", "Australia/Lord_Howe",
             "Africa/Casablanca", "America/St_Johns", "Europe/Dublin", "Asia/Gaza",
             "America/Nuuk", "Antarctica/Troll", "Africa/Cairo", "Asia/Shanghai", "UTC"]
ALL_ZONES = sorted(name for name in zoneinfo.available_timezones()
                   if name not in ("localtime", "Factory"))


def at(*utc):
    return seconds(datetime(*utc, tzinfo=timezone.utc))


def check(questions):
    """The library's answers to (zone, period, unit, week_start, now) are the model's."""
    text = "".join(f"{zone} {period} {UNITS.index(unit)} {week_start} {now}\n"
                   for zone, period, unit, week_start, now in questions)
    done = subprocess.run([PROBE], input=text, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    for question, answer in zip(questions, answers):
        expected = window(*question)
        assert answer == "%d %d" % expected, question
        assert expected[0] <= question[-1] < expected[1], question


@functools.lru_cache(maxsize=None)
def changes(zone, first_year, years):
    """Unix times at which the zone's offset changes, found week by week."""
    info = zoneinfo.ZoneInfo(zone)

    def offset(t):
        return clock(info, t) - clock(timezone.utc, t)

    found = []
    end = at(first_year + years, 1, 1)
    before = at(first_year, 1, 1)
    while before < end:
        following = before + 7 * 86400
        low, high = before, following
        while offset(low) != offset(high) and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(low) == offset(middle) else (low, middle)
        if offset(low) != offset(high):
            found.append(high)
        before = following
    return found


LENGTHS = [(1, "d"), (1, "h"), (6, "h"), (90, "m"), (15, "m"), (1, "s"), (7, "s"), (5, "h"),
           (2, "d"), (7, "d"), (1, "w"), (2, "w"), (1, "month"), (5, "month"), (1, "year")]


def around(zone, t, lengths, step=1800, hours=52):
    """Questions every `step` seconds on both sides of `t`, and a nanosecond before each."""
    return [(zone, period, unit, n % 7, (t + n * step) * S + ns)
            for period, unit in lengths
            for n in range(-hours * 3600 // step, hours * 3600 // step)
            for ns in (-1, 0)]


NAMED = {
    "clocks_forward_in_berlin": ("Europe/Berlin", at(2024, 3, 31, 1)),
    "clocks_back_in_berlin": ("Europe/Berlin", at(2024, 10, 27, 1)),
    "clocks_forward_in_new_york": ("America/New_York", at(2024, 3, 10, 7)),
    "clocks_back_in_new_york": ("America/New_York", at(2024, 11, 3, 6)),
    "midnight_skipped_in_sao_paulo": ("America/Sao_Paulo", at(2017, 10, 15, 3)),
    "midnight_begins_and_returns_to_23_in_sao_paulo": ("America/Sao_Paulo", at(2018, 2, 18, 2)),
    "midnight_skipped_in_beirut": ("Asia/Beirut", at(2022, 3, 26, 22)),
    "midnight_repeated_in_havana": ("America/Havana", at(2024, 11, 3, 5)),
    "clocks_back_a_minute_after_midnight_in_st_johns": ("America/St_Johns", at(2006, 10, 29, 2, 31)),
    "midnight_inside_a_gap_in_toronto": ("America/Toronto", at(1919, 3, 31, 4, 30)),
    "a_day_missing_in_apia": ("Pacific/Apia", at(2011, 12, 30, 10)),
    "a_quarter_hour_offset_in_kathmandu": ("Asia/Kathmandu", at(2024, 6, 1, 18, 15)),
    "half_an_hour_of_saving_begins_on_lord_howe": ("Australia/Lord_Howe", at(2024, 10, 5, 15, 30)),
    "half_an_hour_of_saving_ends_on_lord_howe": ("Australia/Lord_Howe", at(2024, 4, 6, 15)),
    "two_hours_of_saving_at_troll": ("Antarctica/Troll", at(2024, 3, 31, 1)),
    "saving_suspended_for_ramadan_in_casablanca": ("Africa/Casablanca", at(2024, 3, 10, 2)),
    "saving_resumed_after_ramadan_in_casablanca": ("Africa/Casablanca", at(2024, 4, 14, 2)),
    "negative_saving_in_dublin": ("Europe/Dublin", at(2040, 10, 28, 1)),
    "leap_day": ("Asia/Shanghai", at(2024, 2, 28, 16)),
    "no_leap_day_in_2100": ("America/New_York", at(2100, 3, 1, 5)),
    "end_of_month": ("Europe/Berlin", at(2024, 4, 30, 22)),
    "end_of_year": ("Asia/Kathmandu", at(2024, 12, 31, 18, 15)),
    "before_1970": ("Europe/Berlin", at(1968, 12, 31, 23)),
}


@pytest.mark.parametrize("name", NAMED)
def test_named(name):
    zone, t = NAMED[name]
    check(around(zone, t, LENGTHS))


def test_the_named_changes_are_changes():
    """A wrong date above would test an ordinary day."""
    still = {"a_quarter_hour_offset_in_kathmandu", "leap_day", "no_leap_day_in_2100",
             "end_of_month", "end_of_year", "before_1970"}
    for name, (zone, t) in NAMED.items():
        info = zoneinfo.ZoneInfo(zone)
        steady = clock(info, t) - clock(info, t - 1) == timedelta(seconds=1)
        assert steady == (name in still), name


@pytest.mark.parametrize("week_start", range(7))
@pytest.mark.parametrize("zone", ["UTC", "America/Havana", "Pacific/Apia"])
def test_week_start(zone, week_start):
    first = at(2011, 12, 1)
    check([(zone, 1, "w", week_start, (first + hour * 3600) * S) for hour in range(0, 45 * 24, 5)])


def test_every_change_of_ten_years_in_every_zone():
    step = max(500 // settings.default.max_examples, 1)  # a sanitizer sees the same in every zone
    for zone in ALL_ZONES[::step]:
        questions = [question for t in changes(zone, 2018, 10)
                     for question in around(zone, t, [(1, "d"), (6, "h")], step=5400, hours=27)]
        check(questions)


@st.composite
def instants(draw, zone):
    if draw(st.booleans()):
        found = changes(zone, draw(st.integers(1970, 2090)), 1)
        if found:
            return draw(st.sampled_from(found)) * S + draw(st.integers(-3 * DAY, 3 * DAY))
    return draw(st.integers(at(1902, 1, 1) * S, at(2200, 1, 1) * S))


@st.composite
def question(draw):
    zone = draw(st.sampled_from(ODD_ZONES) | st.sampled_from(ALL_ZONES))
    unit = draw(st.sampled_from(UNITS))
    period = draw(st.integers(1, 12) | st.sampled_from([24, 30, 60, 90, 720, 1440, 3600, 86400])
                  | st.integers(1, LONGEST[unit]))
    return (zone, min(period, LONGEST[unit]), unit, draw(st.integers(0, 6)), draw(instants(zone)))


@given(st.lists(question(), min_size=1, max_size=20))
def test_any_window_in_any_zone(questions):
    check(questions)


@given(question())
def test_windows_tile_time(asked):
    """What ends one window begins the next, where windows are cut from midnight."""
    zone, period, unit, week_start, now = asked
    if unit not in ("month", "year") and (period, unit) != (1, "w"):
        period, unit = 2 * period, "h"
        period = max(n for n in (1, 2, 3, 4, 6, 8, 12, 24) if n <= period)
    end = window(zone, period, unit, week_start, now)[1]
    check([(zone, period, unit, week_start, end - 1), (zone, period, unit, week_start, end)])
    assert window(zone, period, unit, week_start, end)[0] == end
