// Memory of the pretend GPU: the host cannot touch it, it runs out, and what is fresh or freed is poisoned.
//
// A device address lies in a range without any access rights; "kernels" use a second range at a fixed distance.  So a
// host that follows data_ptr() dies of SIGSEGV, also while work of the device is under way.  Freed blocks are filled
// with 0xFF (a NaN) in the order of the stream they were allocated on: use on another stream without record_stream or
// a wait shows.  The "context" (devices, memory) belongs to one process and does not survive a fork.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>

#include "streams.h"

namespace fakegpu {

constexpr auto KIND = c10::DeviceType::PrivateUse1;

struct Block {
  size_t size;
  int64_t stream;
  std::set<int64_t> users;
};

struct Memory {
  char* address = nullptr;  // what a tensor's data_ptr() says
  char* bytes = nullptr;    // where the bytes are
  size_t capacity = 0, used = 0, peak = 0, allocations = 0;
  std::map<size_t, size_t> gaps;  // offset -> size
  std::map<size_t, Block> blocks;
};

inline auto& memories = *new std::vector<Memory>;
inline auto& physical = *new std::vector<int>;
inline auto& pinned = *new std::map<char*, size_t>;
inline pid_t owner = 0;

inline int number_from(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

inline std::vector<int> visible() {
  std::vector<int> found;
  int count = number_from("FAKEGPU_COUNT", 1);
  const char* chosen = getenv("FAKEGPU_VISIBLE_DEVICES");
  if (!chosen) {
    for (int i = 0; i < count; i++) found.push_back(i);
    return found;
  }
  std::stringstream items(chosen);
  std::string item;
  while (std::getline(items, item, ','))
    if (!item.empty() && std::stoi(item) < count) found.push_back(std::stoi(item));
  return found;
}

inline char* reserve(size_t size, int rights) {
  void* at = mmap(nullptr, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(at != MAP_FAILED, "fakegpu: no address space");
  return static_cast<char*>(at);
}

inline void init() {
  if (owner == getpid()) return;
  TORCH_CHECK(owner == 0, "Cannot re-initialize fakegpu in forked subprocess (process ", owner, " initialized it)");
  Lock lock(big_lock);
  physical = visible();
  TORCH_CHECK(!physical.empty(), "No fakegpu devices are available");
  memories.resize(physical.size());
  for (auto& memory : memories) {
    memory.capacity = size_t(number_from("FAKEGPU_MEMORY_MB", 256)) << 20;
    memory.address = reserve(memory.capacity, PROT_NONE);
    memory.bytes = reserve(memory.capacity, PROT_READ | PROT_WRITE);
    memory.gaps[0] = memory.capacity;
  }
  owner = getpid();
}

inline int device_of(const void* address) {
  for (size_t i = 0; i < memories.size(); i++) {
    auto& memory = memories[i];
    if (address >= memory.address && address < memory.address + memory.capacity) return i;
  }
  return -1;
}

inline char* bytes_of(const void* address) {
  int device = device_of(address);
  TORCH_CHECK(device >= 0, "not an address of a fakegpu");
  return memories[device].bytes + (static_cast<const char*>(address) - memories[device].address);
}

inline void poison(char* at, size_t size) { memset(at, 0xFF, size); }

inline void join_gaps(std::map<size_t, size_t>& gaps, std::map<size_t, size_t>::iterator gap) {
  auto next = std::next(gap);
  if (next != gaps.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps.erase(next);
  }
  if (gap == gaps.begin()) return;
  auto before = std::prev(gap);
  if (before->first + before->second == gap->first) {
    before->second += gap->second;
    gaps.erase(gap);
  }
}

inline void free_now(int device, size_t at) {
  Lock lock(big_lock);
  auto& memory = memories[device];
  size_t size = memory.blocks[at].size;
  memory.blocks.erase(at);
  memory.used -= size;
  poison(memory.bytes + at, size);
  join_gaps(memory.gaps, memory.gaps.emplace(at, size).first);
}

inline void free_in_order(void* address) {
  if (!address || owner != getpid()) return;
  int device = device_of(address);
  size_t at = static_cast<char*>(address) - memories[device].address;
  Block block;
  {
    Lock lock(big_lock);
    block = memories[device].blocks[at];
  }
  for (auto user : block.users)
    if (user != block.stream) stream_waits(device, block.stream, device, user, tip(device, user));
  push(device, block.stream, [=] { free_now(device, at); });
}

inline void* take(int device, size_t size) {
  Lock lock(big_lock);
  auto& memory = memories[device];
  for (auto gap = memory.gaps.begin(); gap != memory.gaps.end(); ++gap) {
    if (gap->second < size) continue;
    size_t at = gap->first, left = gap->second - size;
    memory.gaps.erase(gap);
    if (left) memory.gaps[at + size] = left;
    memory.blocks[at] = {size, current_stream(device), {}};
    memory.used += size;
    memory.peak = std::max(memory.peak, memory.used);
    memory.allocations++;
    poison(memory.bytes + at, size);
    return memory.address + at;
  }
  return nullptr;
}

struct DeviceAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t size) override {
    init();
    int device = current;
    size_t rounded = (size + 511) / 512 * 512;
    void* at = size ? take(device, rounded) : nullptr;
    if (size && !at) {  // frees may be waiting in the streams
      host_drain_device(device, "memory");
      at = take(device, rounded);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, at || !size, "fakegpu out of memory. Tried to allocate ", size, " bytes; ",
                     memories[device].used, " of ", memories[device].capacity, " in use");
    return {at, at, &free_in_order, c10::Device(KIND, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_in_order; }
  void copy_data(void* target, const void* source, size_t size) const override {
    drain_all(current, current_stream(current));
    memcpy(bytes_of(target), bytes_of(source), size);
  }
  bool initialized() override { return owner == getpid(); }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    Lock lock(big_lock);
    int device = device_of(pointer.get());
    if (device < 0) return;
    memories[device].blocks[static_cast<char*>(pointer.get()) - memories[device].address].users.insert(stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& memory = memories.at(device);
    for (auto* kind : {&stats.allocated_bytes[0], &stats.reserved_bytes[0], &stats.active_bytes[0]}) {
      kind->current = memory.used;
      kind->peak = memory.peak;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { memories.at(device).peak = memories.at(device).used; }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    init();
    auto& memory = memories.at(device);
    return {memory.capacity - memory.used, memory.capacity};
  }
};

struct PinnedAllocator final : c10::Allocator {
  static void gone(void* at) {
    {
      Lock lock(big_lock);
      pinned.erase(static_cast<char*>(at));
    }
    free(at);
  }
  c10::DataPtr allocate(size_t size) override {
    void* at = nullptr;
    if (size) TORCH_CHECK(!posix_memalign(&at, 4096, size), "no pinned memory");
    if (at) {
      Lock lock(big_lock);
      pinned[static_cast<char*>(at)] = size;
    }
    return {at, at, &gone, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &gone; }
  void copy_data(void* target, const void* source, size_t size) const override { memcpy(target, source, size); }
};

inline bool is_pinned(const void* at) {
  Lock lock(big_lock);
  auto after = pinned.upper_bound(static_cast<char*>(const_cast<void*>(at)));
  if (after == pinned.begin()) return false;
  auto block = std::prev(after);
  return at < block->first + block->second;
}

}  // namespace fakegpu
