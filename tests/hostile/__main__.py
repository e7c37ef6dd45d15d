"""``python -m tests.hostile``: random hostile actions for a time; the laws after every few."""

import argparse
import random
import sys
import time
from collections import Counter

from tests.hostile import actions, laws
from tests.hostile.world import Hostile, World

BETWEEN_CHECKS = 25


def run(seconds, seed, say):
    """Actions until the time is over; how many of each kind were done."""
    with Hostile() as agent:
        world = World(agent, random.Random(seed))
        end = time.monotonic() + seconds
        kinds, weights = list(actions.ACTIONS), list(actions.ACTIONS.values())
        checks = 0
        try:
            while time.monotonic() < end:
                for action in world.rng.choices(kinds, weights, k=BETWEEN_CHECKS):
                    world.done.append(action.__name__)
                    action(world)
                    time.sleep(world.rng.random() * 0.1)
                world.calm()
                laws.check(world)
                checks += 1
                say(f"{len(world.done)} actions, {checks} checks, {len(world.pods())} pods")
                if checks % 4 == 0:
                    _start_over(world)
        except Exception:
            say(f"seed {seed}, after {len(world.done)} actions: {world.done[-BETWEEN_CHECKS:]}")
            say(laws.dump(world))
            say(agent.said()[-6000:])
            raise
        return Counter(world.done)


def _start_over(world):
    """Ends all pods, so that there is room again."""
    for path in world.agent.pods.glob("h*.json"):
        path.unlink()
    for pod in world.pods():
        world.ask("DELETE", f"/pods/{pod['metadata']['uid']}")
    world.agent.until(lambda: not world.pods(), "all pods to end")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    done = run(asked.seconds, asked.seed, _say)
    _say(f"{done.total()} actions, all laws held: {dict(sorted(done.items()))}")
    return 0


def _say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
