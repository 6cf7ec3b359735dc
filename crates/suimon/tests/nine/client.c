/* A program that downloads, and says what its own socket looks like: for the tests of `suimon nine`.
 *
 *     client plain|thread|daemon ADDRESS PORT NAME STATE
 *
 * Ten times a second it writes into the file STATE: its clamp, its buffer lock, how often it has connected, whether the last
 * time failed, and when it last closed (milliseconds since 1970). USR1: close and connect again. USR2: close and stay. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t again, enough;
static char **words;
static int state, connects, failed;
static long long closed;

static void on_usr1(int signal) { (void)signal; again = 1; }
static void on_usr2(int signal) { (void)signal; enough = 1; }

static long long now(void) {
    struct timeval t;
    gettimeofday(&t, 0);
    return t.tv_sec * 1000LL + t.tv_usec / 1000;
}

static int dial(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
    char ask[200];
    int s = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, words[2], &to.sin_addr);
    if (connect(s, (struct sockaddr *)&to, sizeof to) < 0) {
        failed = errno;
        close(s);
        return -1;
    }
    failed = 0;
    connects++;
    snprintf(ask, sizeof ask, "GET /%s HTTP/1.0\r\n\r\n", words[4]);
    if (write(s, ask, strlen(ask)) < 0) failed = errno;
    return s;
}

static void say(int s) {
    int clamp = 0, lock = 0;
    socklen_t len = sizeof clamp;
    char text[200];
    if (s >= 0) {
        getsockopt(s, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, &len);
        len = sizeof lock;
        getsockopt(s, SOL_SOCKET, 72, &lock, &len);
    }
    int n = snprintf(text, sizeof text, "%10d %d %d %d %lld\n", clamp, lock, connects, failed, closed);
    if (pwrite(state, text, n, 0) < 0) _exit(1);
}

static void *work(void *nothing) {
    static char buffer[1 << 16];
    int s = dial();
    for (;;) {
        struct pollfd p = {.fd = s, .events = POLLIN};
        static long long said;
        if (poll(&p, 1, 50) > 0 && read(s, buffer, sizeof buffer) <= 0 && !enough) _exit(0);
        if (again || (enough && s >= 0)) {
            closed = now();
            close(s);
            s = -1;
            if (again) s = dial();
            again = 0;
        }
        if (now() - said >= 100) {
            said = now();
            say(s);
        }
    }
    return nothing;
}

int main(int count, char **arguments) {
    pthread_t thread;
    if (count < 6) return 2;
    words = arguments;
    signal(SIGUSR1, on_usr1);
    signal(SIGUSR2, on_usr2);
    state = open(words[5], O_CREAT | O_RDWR, 0644);
    if (!strcmp(words[1], "daemon")) {
        if (fork()) return 0;
        setsid();
        if (fork()) return 0;
    }
    if (strcmp(words[1], "thread")) work(0);
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return 0;
}
