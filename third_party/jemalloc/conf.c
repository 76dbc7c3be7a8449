/* Read by jemalloc as a program starts; the words are those of jemalloc(3), "TUNING".
 *
 * An arena for each CPU, where the default has four: what one has left free helps no other. What is
 * free goes back to the kernel within a second, where the default keeps it for ten: a storm of calls
 * comes in bursts, and each finds its memory elsewhere. docs/operations/performance.md has what other
 * values gave. */
const char* malloc_conf = "percpu_arena:percpu,dirty_decay_ms:1000,muzzy_decay_ms:0";
