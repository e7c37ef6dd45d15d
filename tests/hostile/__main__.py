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
        bag, checks = [], 0
        try:
            while time.monotonic() < end:
                for _ in range(BETWEEN_CHECKS):
                    bag = bag or _bag(world.rng)
                    action = bag.pop()
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
        finally:
            world.end_plugin()
        return Counter(world.done)


def _bag(rng):
    """Every kind of action as often as it weighs: none is left out for long."""
    found = [action for action, weight in actions.ACTIONS.items() for _ in range(weight)]
    rng.shuffle(found)
    return found


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
