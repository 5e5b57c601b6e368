"""Activities of a smart home as a table: their hours, lengths, places and followers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

AREAS = ("Bathroom", "Bedroom", "Kitchen", "LivingRoom", "LoungeChair", "OutsideDoor", "WorkArea")

# Measured on 30 days of a home with one resident, 61,578 sensor events in 2,731 runs of 30 activities.
# One entry per activity: name | runs by the hour in which they begin, 0 to 23, in ninths of the most frequent
# hour | events in a run, quantiles 5, 25, 50, 75, 95 % | seconds that a run with several events lasts, same
# quantiles | seconds until the next run, same quantiles and the longest. Indented: shares of the areas of
# its events | shares of the activities that follow.
_TABLE = """
Other_Activity | 011011129735843443633331 | 1 2 13 24 51 | 1.7 22 60 160 3000 | 0.27 1.2 3.6 9.3 160 20000
    Bedroom 0.51 LoungeChair 0.18 LivingRoom 0.12 WorkArea 0.08 OutsideDoor 0.05 Kitchen 0.05 | Toilet 0.187
    Watch_TV 0.101 Relax 0.090 Personal_Hygiene 0.083 Work_At_Table 0.081 Leave_Home 0.067 Step_Out 0.048
    Enter_Home 0.040 Morning_Meds 0.039 Dress 0.036 Go_To_Sleep 0.032 Evening_Meds 0.031 Cook_Dinner 0.029
    Cook_Lunch 0.027 Read 0.027 Eat_Breakfast 0.021 Eat_Lunch 0.011 Eat_Dinner 0.009 Bathe 0.007
    Cook_Breakfast 0.006 Phone 0.006
Toilet | 000010017557955454832211 | 6.7 16 24 30 46 | 41 87 130 190 300 | 2.3 6.3 9.1 17 56 130
    Bathroom 1.00 | Other_Activity 0.986
Personal_Hygiene | 000000039512300101224472 | 16 32 44 60 83 | 68 210 290 390 600 | 2.8 5.3 10 17 48 65
    Bathroom 1.00 | Other_Activity 0.992 Dress 0.008
Watch_TV | 000000004945112552643520 | 1 1 8 12 25 | 430 1100 1800 3800 9100 | 0.11 0.74 1.1 2.3 5.9 85
    LivingRoom 0.90 Bedroom 0.05 LoungeChair 0.03 | Other_Activity 1.000
Relax | 000000000338753496132310 | 1 1 1 1 12 | 1400 2900 4700 6700 8800 | 0.28 1 1.1 1.9 4.2 9.8
    LivingRoom 0.93 LoungeChair 0.05 | Other_Activity 1.000
Work_At_Table | 000000000223418822926100 | 1 1 1 1 14 | 500 990 2400 3400 6500 | 1.1 1.1 4.2 7.1 19 180
    WorkArea 0.99 | Other_Activity 0.989 Cook_Lunch 0.011
Sleep | 253352430000000000000094 | 12 19 26 39 64 | 3600 8300 11000 14000 18000 | 16 28 37 41 62 1300
    Bedroom 1.00 | Wake_Up 0.953 Other_Activity 0.047
Wake_Up | 263462499000000000000000 | 2 2 4 4 4.9 | 1.1 3.4 3.9 4.6 9.5 | 0.96 4.4 7.8 11 19 49
    Bedroom 0.94 OutsideDoor 0.04 LoungeChair 0.02 | Bed_Toilet_Transition 0.614 Personal_Hygiene 0.169
    Other_Activity 0.157 Bathe 0.036 Toilet 0.024
Go_To_Sleep | 243362430000000000000093 | 2 2 4 4 6 | 1.1 2.8 3.7 6.7 10 | 10 17 30 40 100 130
    Bedroom 0.98 | Sleep 1.000
Enter_Home | 000000000839323565127500 | 4 5 5 7 7 | 8.3 10 11 14 19 | 0.78 1.1 1.7 2 2.4 4
    OutsideDoor 1.00 | Other_Activity 1.000
Leave_Home | 000000008650093220380000 | 4 4 5 5 7 | 9.2 10 11 14 19 | 0.1 0.81 3000 5400 13000 16000
    OutsideDoor 1.00 | Other_Activity 0.595 Enter_Home 0.405
Bed_Toilet_Transition | 395694750000000000000000 | 22 26 30 32 36 | 170 220 280 330 550 | 3.8 10 12 13 16 49
    Bathroom 1.00 | Go_To_Sleep 0.800 Other_Activity 0.182 Sleep 0.018
Step_Out | 000000149112322210000000 | 12 16 18 20 23 | 28 44 52 250 470 | 0.29 0.72 2.4 2.9 5.6 2100
    OutsideDoor 0.90 Bedroom 0.10 | Other_Activity 0.981 Enter_Home 0.019
Cook_Dinner | 000000000000000003910100 | 27 56 100 200 290 | 89 160 420 790 1200 | 0.63 2.9 4.9 6.9 11 140
    Kitchen 1.00 | Eat_Dinner 0.755 Other_Activity 0.245
Eat_Dinner | 000000000000000003920100 | 2.4 6 8 8 11 | 330 810 1000 1400 2100 | 1.6 4 5.4 8.1 13 16
    WorkArea 0.99 | Wash_Dinner_Dishes 0.480 Cook_Dinner 0.420 Other_Activity 0.100
Morning_Meds | 000000049210000000000000 | 1 1 12 16 26 | 26 38 49 54 61 | 0.76 1.7 3.6 7.4 27 32
    Kitchen 1.00 | Other_Activity 0.512 Cook_Breakfast 0.488
Dress | 000000009511100000000011 | 1 10 14 20 26 | 36 110 210 290 390 | 1.1 5.4 110 200 320 350
    Bedroom 0.98 LoungeChair 0.02 | Other_Activity 0.878 Sleep 0.049 Toilet 0.024 Step_Out 0.024 Phone 0.024
Eat_Breakfast | 000000038910000000000000 | 1 1 10 12 16 | 260 1200 1300 1700 2100 | 2 4.4 6.3 8 13 180
    WorkArea 0.99 | Wash_Breakfast_Dishes 0.583 Other_Activity 0.333 Wash_Dinner_Dishes 0.028 Exercise 0.028
    Cook_Breakfast 0.028
Eat_Lunch | 000000000000910000000000 | 1 6 8 8 15 | 650 820 1000 1100 1400 | 2.8 3.5 5 6.5 11 12
    WorkArea 1.00 | Wash_Lunch_Dishes 0.743 Other_Activity 0.229 Cook_Lunch 0.029
Evening_Meds | 000000000000000000001292 | 1 4 6 14 25 | 33 43 67 87 140 | 0.7 1.1 4.4 21 96 120
    Bathroom 1.00 | Personal_Hygiene 0.559 Other_Activity 0.412 Go_To_Sleep 0.029
Cook_Lunch | 000000000001910000000000 | 52 130 140 160 200 | 130 480 550 610 720 | 1.5 2.9 4.8 6.6 9.2 14
    Kitchen 1.00 | Eat_Lunch 0.719 Other_Activity 0.281
Read | 000000000000940000000000 | 1 1 1 10 13 | 690 1000 2500 4900 5400 | 0.22 0.8 1.1 1.2 4.4 9.9
    LivingRoom 0.88 LoungeChair 0.05 WorkArea 0.05 Bedroom 0.03 | Other_Activity 1.000
Cook_Breakfast | 000000049510000000000000 | 18 140 180 200 220 | 54 430 600 650 690 | 1.1 1.4 3.7 6.6 11 12
    Kitchen 1.00 | Other_Activity 0.552 Eat_Breakfast 0.448
Wash_Dinner_Dishes | 000000001000000000931000 | 13 26 39 50 96 | 32 70 130 170 410 | 0.93 2.7 4.8 6.5 16 23
    Kitchen 0.99 | Other_Activity 0.862 Work_At_Table 0.138
Wash_Lunch_Dishes | 000000000000910000000000 | 24 32 40 55 90 | 65 94 130 180 320 | 2.4 4.6 5.2 6.7 15 20
    Kitchen 1.00 | Other_Activity 1.000
Wash_Breakfast_Dishes | 000000009900000000000000 | 10 14 20 26 46 | 30 33 52 84 150 | 2.9 4.5 5.2 7.4 17 30
    Kitchen 1.00 | Other_Activity 1.000
Bathe | 000000039000000050000000 | 79 96 110 140 160 | 710 910 1000 1200 1300 | 3.4 4.5 8.4 22 39 51
    Bathroom 1.00 | Other_Activity 1.000
Phone | 000000003303303900000000 | 1 1 6 12 16 | 210 390 680 1100 1600 | 0.28 0.46 1.1 2.1 2.6 2.6
    LivingRoom 0.88 LoungeChair 0.07 Bedroom 0.05 | Other_Activity 1.000
Exercise | 000000000905300000000000 | 1 1 1 7 41 | 380 440 510 590 650 | 0.64 0.91 1.1 1.8 2.2 2.3
    Bedroom 0.76 LivingRoom 0.20 WorkArea 0.03 | Other_Activity 1.000
Sleep_Out_Of_Bed | 000000000009000000000500 | 1 1 1 4.5 7.3 | 6800 6800 6800 6800 6800 | 0.9 1.3 1.9 4.9 7.3 8
    LivingRoom 1.00 | Other_Activity 1.000
"""


@dataclass(frozen=True, slots=True)
class Activity:
    """One activity of the table."""

    name: str
    hours: tuple[float, ...]  # share of the runs that begin in each hour, 0 to 23; the sum is 1
    n_events: tuple[float, ...]  # events in a run: quantiles 5, 25, 50, 75 and 95 %
    lasts_s: tuple[float, ...]  # seconds from the first to the last event of a run, same quantiles
    pause_s: tuple[float, ...]  # seconds from a run to the next one, same quantiles and the longest
    # areas, followers: shares of the areas of its events, and of the activities after it
    areas: dict[str, float]
    followers: dict[str, float]


@cache
def activities() -> tuple[Activity, ...]:
    """Return the activities, in alphabetical order."""
    entries: list[str] = []
    for line in _TABLE.strip().splitlines():
        if line.startswith(" "):
            entries[-1] += (" | " if entries[-1].count("|") == 4 else " ") + line.strip()
        else:
            entries.append(line)
    return tuple(sorted(map(_activity, entries), key=lambda activity: activity.name))


def _activity(entry: str) -> Activity:
    name, hours, *numbers, areas, followers = (part.strip() for part in entry.split("|"))
    total = sum(map(int, hours))
    n_events, lasts_s, pause_s = (tuple(map(float, part.split())) for part in numbers)
    return Activity(
        name=name,
        hours=tuple(int(hour) / total for hour in hours),
        n_events=n_events,
        lasts_s=lasts_s,
        pause_s=pause_s,
        areas=_shares(areas),
        followers=_shares(followers),
    )


def _shares(text: str) -> dict[str, float]:
    words = text.split()
    return {name: float(share) for name, share in zip(words[::2], words[1::2], strict=True)}
