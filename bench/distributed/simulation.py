"""simulation.py - how long a save of many ranks takes behind a shared file system, computed from the speeds of one.

Assumptions:

- A rank encodes its part with a number of cores, at a speed that does not change while it does, and sends what is
  encoded at once. So its traffic is never faster than its encoder times traffic / content. The slowest rank counts.
- Before a rank sends anything, it encodes one piece.
- Ranks share the link of their node and the bandwidth of the file system: nobody gets more than another who could use
  it (max-min fairness). A rank that has finished leaves its share to the others. Nothing else uses them.
- What a rank reads of its base takes as much of the link and of the file system as what it writes. It is nothing where
  the base is still in memory of the node.
- Raw writing is limited by its own CPU time (copying), not by an encoder.
- The processors of ranks differ: seconds are multiplied by exp(normal number with a standard deviation of `spread`).
  Some ranks are much slower (stragglers), either their processor or their way to the file system.
"""

import dataclasses

import numpy

NEVER = numpy.inf
MERGED = 1e-3  # ranks that finish within this share of the time are taken to finish together


@dataclasses.dataclass
class Way:
    """What a save of a rank takes: content in GB a CPU second, and traffic / content."""

    speed: float
    stored: float
    read: float = 0.0

    @property
    def traffic(self):
        return self.stored + self.read


@dataclasses.dataclass
class Cluster:
    ranks: int
    node_ranks: int = 8
    node_link: float = NEVER  # GB/s
    total: float = NEVER      # GB/s of the file system
    spread: float = 0.05
    straggler_share: float = 0.0
    slow_processor: float = 1.0  # seconds of a straggler's encoder / seconds of others
    slow_link: float = NEVER     # GB/s that a straggler's way to the file system has


def level_of(caps, limit):
    """For each row of demands, the rate that nobody exceeds so that their sum is at most the limit."""
    ordered = numpy.sort(caps, axis=1)
    count = ordered.shape[1]
    before = numpy.cumsum(ordered, axis=1) - ordered
    left = count - numpy.arange(count)
    is_over = before + ordered * left >= limit
    first = numpy.argmax(is_over, axis=1)
    rows = numpy.arange(len(ordered))
    return numpy.where(is_over[:, -1], (limit - before[rows, first]) / left[first], NEVER)


def fair_rates(caps, cluster):
    """GB/s of traffic of each rank that could send so much."""
    nodes = -(-len(caps) // cluster.node_ranks)
    padded = numpy.zeros((nodes, cluster.node_ranks))
    padded.flat[:len(caps)] = caps
    if numpy.isfinite(cluster.node_link):
        padded = numpy.minimum(padded, level_of(padded, cluster.node_link)[:, None])
    rates = padded.flat[:len(caps)]
    if numpy.isfinite(cluster.total):
        rates = numpy.minimum(rates, level_of(rates[None, :], cluster.total)[0])
    return rates


def factors_of(cluster, seed=1):
    """Seconds of each rank's encoder / seconds of the one measured, and which ranks are stragglers."""
    random = numpy.random.default_rng(seed)
    factors = numpy.exp(random.normal(0, cluster.spread, cluster.ranks))
    is_slow = numpy.zeros(cluster.ranks, bool)
    is_slow[random.permutation(cluster.ranks)[:round(cluster.straggler_share * cluster.ranks)]] = True
    return numpy.where(is_slow, factors * cluster.slow_processor, factors), is_slow


def finish_times(caps, traffic, cluster):
    """When each rank has sent its traffic (GB), if it can send at most `caps` GB/s."""
    left, ends, now = numpy.full(len(caps), traffic, float), numpy.zeros(len(caps)), 0.0
    while (is_active := left > 0).any():
        rates = fair_rates(numpy.where(is_active, caps, 0.0), cluster)
        need = numpy.full(len(caps), NEVER)
        numpy.divide(left, rates, out=need, where=is_active)
        step = need.min() + MERGED * (now + need.min())
        left = numpy.where(need <= step, 0.0, left - rates * step)
        ends = numpy.where(is_active & (need <= step), now + numpy.minimum(need, step), ends)
        now += step
    return ends


def save_seconds(way, gigabytes, cores, cluster, piece=0.0, factors=None):
    """Seconds until each rank's part of so many GB is written. piece: GB that are encoded before anything is sent."""
    is_slow = numpy.zeros(cluster.ranks, bool)
    if factors is None:
        factors, is_slow = factors_of(cluster)
    speeds = cores * way.speed / numpy.asarray(factors, float)
    caps = numpy.where(is_slow, numpy.minimum(speeds * way.traffic, cluster.slow_link), speeds * way.traffic)
    return finish_times(caps, gigabytes * way.traffic, cluster) + piece / speeds
