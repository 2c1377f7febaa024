// Devices, streams and events of the pretend GPU.
//
// A stream is a queue of host functions.  The policy says when they run:
//   eager   at once, like a CPU;
//   late    only when somebody synchronises with them: the latest schedule the rules of CUDA allow, and always the same;
//   thread  in a thread of the stream's own, each after a random delay.
// Kernels first run what their stream still holds and then run in the caller; copies, waits, events and frees queue.
#pragma once
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fakegpu {

enum class Policy { EAGER, LATE, THREAD };
using Lock = std::unique_lock<std::recursive_mutex>;
using StreamKey = std::pair<int, int64_t>;  // device, stream

struct Behind {  // what a stream waits for at its item `at`
  uint64_t at;
  StreamKey other;
  uint64_t count;
};

struct Queue {
  std::deque<std::function<void()>> items;
  std::deque<Behind> behind;
  uint64_t pushed = 0, done = 0, known = 0;  // known: of so many items the host has been told that they have run
  bool running = false, threaded = false;
};

// Never destroyed: threads of streams may still wait on these while the process ends.
inline auto& big_lock = *new std::recursive_mutex;
inline auto& progress = *new std::condition_variable_any;
inline auto& queues = *new std::map<StreamKey, Queue>;  // never erased, so references stay good
inline auto& always_threaded = *new std::set<StreamKey>;
inline Policy policy = Policy::EAGER;
inline int delay_us = 0;
inline int64_t next_stream = 1;
inline thread_local int current = 0;
inline thread_local std::map<int, int64_t> current_streams;

inline int known(int device) { return device < 0 ? current : device; }

inline int64_t current_stream(int device) {
  auto found = current_streams.find(known(device));
  return found == current_streams.end() ? 0 : found->second;
}

inline void run_front(Lock& lock, Queue& queue) {
  auto item = std::move(queue.items.front());
  queue.items.pop_front();
  queue.running = true;
  lock.unlock();
  item();
  lock.lock();
  queue.running = false;
  queue.done++;
  progress.notify_all();
}

// Returns when the first `count` items of a stream have run; runs them here if nobody else does.
inline void drain(int device, int64_t stream, uint64_t count) {
  Lock lock(big_lock);
  auto& queue = queues[{device, stream}];
  while (queue.done < count) {
    if (queue.threaded || queue.running || queue.items.empty()) progress.wait(lock);
    else run_front(lock, queue);
  }
}

inline uint64_t tip(int device, int64_t stream) {
  Lock lock(big_lock);
  return queues[{device, stream}].pushed;
}

inline void drain_all(int device, int64_t stream) { drain(device, stream, tip(device, stream)); }

inline void drain_device(int device) {
  std::vector<int64_t> streams;
  {
    Lock lock(big_lock);
    for (auto& [key, queue] : queues) if (key.first == device) streams.push_back(key.second);
  }
  for (auto stream : streams) drain_all(device, stream);
}

inline void stream_thread(Queue* queue) {
  std::minstd_rand random(getpid());
  Lock lock(big_lock);
  while (true) {
    while (queue->items.empty()) progress.wait(lock);
    if (delay_us) {
      int pause = random() % delay_us;
      lock.unlock();
      usleep(pause);
      lock.lock();
    }
    run_front(lock, *queue);
  }
}

inline uint64_t push(int device, int64_t stream, std::function<void()> item) {
  uint64_t count;
  {
    Lock lock(big_lock);
    auto& queue = queues[{device, stream}];
    queue.items.push_back(std::move(item));
    count = ++queue.pushed;
    bool threaded = policy == Policy::THREAD || always_threaded.count({device, stream});
    if (threaded && !queue.threaded) {
      queue.threaded = true;
      std::thread(stream_thread, &queue).detach();
    }
    progress.notify_all();
    if (queue.threaded || policy == Policy::LATE) return count;
  }
  drain(device, stream, count);
  return count;
}

// The stream goes on only when the first `count` items of the other have run.
inline void stream_waits(int device, int64_t stream, int other_device, int64_t other, uint64_t count) {
  auto at = push(device, stream, [=] { drain(other_device, other, count); });
  Lock lock(big_lock);
  queues[{device, stream}].behind.push_back({at, {other_device, other}, count});
}

// Calls of the host that block until the device has done something, in all threads; those that ask for what the host
// has been told already block nobody.  Kernels that run in the caller block it only here, not on a GPU.

struct HostWait {
  std::string what;
  long thread;
};

inline auto& host_waits = *new std::vector<HostWait>;
inline bool counting_waits = false;
inline thread_local int kernels = 0;  // under way in this thread

struct InKernel {
  InKernel() { kernels++; }
  ~InKernel() { kernels--; }
};

inline void host_knows(StreamKey key, uint64_t count) {
  Lock lock(big_lock);
  auto& queue = queues[key];
  if (queue.known >= count) return;
  queue.known = count;
  while (!queue.behind.empty() && queue.behind.front().at <= count) {
    auto before = queue.behind.front();
    queue.behind.pop_front();
    host_knows(before.other, before.count);
  }
}

inline void note_wait(const std::string& what) {
  Lock lock(big_lock);
  if (counting_waits && !kernels) host_waits.push_back({what, long(syscall(SYS_gettid))});
}

inline void host_drain(int device, int64_t stream, uint64_t count, const std::string& what) {
  bool told;
  {
    Lock lock(big_lock);
    told = queues[{device, stream}].known >= count;
  }
  if (!told) note_wait(what);
  drain(device, stream, count);
  if (!kernels) host_knows({device, stream}, count);
}

inline void host_drain_device(int device, const std::string& what) {
  std::vector<std::pair<StreamKey, uint64_t>> tips;
  bool told = true;
  {
    Lock lock(big_lock);
    for (auto& [key, queue] : queues) {
      if (key.first != device) continue;
      tips.push_back({key, queue.pushed});
      told = told && queue.known >= queue.pushed;
    }
  }
  if (!told) note_wait(what);
  drain_device(device);
  if (kernels) return;
  for (auto& [key, count] : tips) host_knows(key, count);
}

struct Event {
  int device;
  int64_t stream;
  uint64_t count;
  std::shared_ptr<double> at_ms;
};

inline double now_ms() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

inline void record(Event& event, int device, int64_t stream) {
  auto at = std::make_shared<double>(0);
  event = {device, stream, 0, at};
  event.count = push(device, stream, [at] { *at = now_ms(); });
}

inline bool has_happened(const Event& event) {
  Lock lock(big_lock);
  auto& queue = queues[{event.device, event.stream}];
  bool mine = !queue.threaded && !queue.running && !queue.items.empty();
  if (queue.done < event.count && mine) run_front(lock, queue);  // who polls for ever must see an end
  bool happened = queue.done >= event.count;
  if (happened) host_knows({event.device, event.stream}, event.count);
  return happened;
}

}  // namespace fakegpu
