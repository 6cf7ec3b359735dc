/*
 * What a packet costs in DPDK's hierarchical scheduler (rte_sched): one enqueue and one dequeue, in bursts
 * of 32, at random into so many pipes of four best-effort queues, with eight packets a pipe held. Rates are
 * never the limit. On ordinary pages, with no card.
 *
 * rte_sched PIPES prints ns a packet, the median of its rounds.
 */
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 32, ROUNDS = 15, PACKETS = 400000, HELD = 8, LENGTH = 1000, QUEUE = 64 };

static uint32_t below(uint32_t n)
{
	static uint64_t state = 0x9e3779b97f4a7c15;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(((state >> 32) * n) >> 32);
}

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return at.tv_sec * 1e9 + at.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

static struct rte_sched_port *scheduler(uint32_t pipes)
{
	const uint64_t rate = 100ull * 1000 * 1000 * 1000;
	struct rte_sched_subport_profile_params above = { .tb_rate = rate, .tb_size = 1000000, .tc_period = 10 };
	struct rte_sched_pipe_params pipe = {
		.tb_rate = rate, .tb_size = 1000000, .tc_period = 40, .tc_ov_weight = 1 };
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe, .n_pipe_profiles = 1,
		.n_max_pipe_profiles = 1 };
	struct rte_sched_port_params port = {
		.name = "port", .rate = rate, .mtu = 1522, .frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
		.n_subports_per_port = 1, .subport_profiles = &above, .n_subport_profiles = 1,
		.n_max_subport_profiles = 1, .n_pipes_per_subport = pipes };
	for (int class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++) {
		above.tc_rate[class] = pipe.tc_rate[class] = rate;
		subport.qsize[class] = QUEUE;
	}
	for (int queue = 0; queue < RTE_SCHED_BE_QUEUES_PER_PIPE; queue++)
		pipe.wrr_weights[queue] = 1;
	struct rte_sched_port *made = rte_sched_port_config(&port);
	if (!made || rte_sched_subport_config(made, 0, &subport, 0))
		fail("the scheduler was refused");
	for (uint32_t number = 0; number < pipes; number++)
		if (rte_sched_pipe_config(made, 0, number, 0))
			fail("a pipe was refused");
	return made;
}

/* Puts packets in, each into a queue at random; those that a full queue drops are offered again. */
static void offer(struct rte_sched_port *to, struct rte_mempool *pool, struct rte_mbuf **packets, int count, uint32_t pipes)
{
	while (count > 0) {
		for (int i = 0; i < count; i++)
			rte_sched_port_pkt_write(to, packets[i], 0, below(pipes),
				RTE_SCHED_TRAFFIC_CLASS_BE, below(RTE_SCHED_BE_QUEUES_PER_PIPE), RTE_COLOR_GREEN);
		count -= rte_sched_port_enqueue(to, packets, count);
		for (int i = 0; i < count; i++) {
			if (!(packets[i] = rte_pktmbuf_alloc(pool)))
				fail("no packet is left");
			packets[i]->pkt_len = packets[i]->data_len = LENGTH;
		}
	}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int count, char **arguments)
{
	char *without_cards[] = { arguments[0], "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
				  "-m", "4096", "-l", "0", "--log-level", "error" };
	if (count != 2 || rte_eal_init(sizeof without_cards / sizeof *without_cards, without_cards) < 0)
		fail("usage: rte_sched PIPES");
	uint32_t pipes = atoi(arguments[1]), held = HELD * pipes;
	struct rte_sched_port *port = scheduler(pipes);
	struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", held + 2048, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	if (!pool)
		fail("no memory for packets");
	struct rte_mbuf *packets[BURST];
	for (uint32_t in = 0; in < held; in += BURST) {
		for (int i = 0; i < BURST; i++) {
			packets[i] = rte_pktmbuf_alloc(pool);
			packets[i]->pkt_len = packets[i]->data_len = LENGTH;
		}
		offer(port, pool, packets, BURST, pipes);
	}
	double rounds[ROUNDS];
	for (int round = -2; round < ROUNDS; round++) {
		double begin = now();
		long out = 0, asked = 0;
		while (out < PACKETS) {
			int left = rte_sched_port_dequeue(port, packets, BURST);
			if (left == 0 && ++asked > 50000000)
				fail("its packets are gone");
			offer(port, pool, packets, left, pipes);
			out += left;
		}
		if (round >= 0)
			rounds[round] = (now() - begin) / out;
	}
	qsort(rounds, ROUNDS, sizeof *rounds, ascending);
	printf("%.1f\n", rounds[ROUNDS / 2]);
	return 0;
}
