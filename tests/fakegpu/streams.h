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

struct Queue {
  std::deque<std::function<void()>> items;
  uint64_t pushed = 0, done = 0;
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
  push(device, stream, [=] { drain(other_device, other, count); });
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
  return queue.done >= event.count;
}

}  // namespace fakegpu
