#include "block.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace hpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAddressGrain = 512;
constexpr uint64_t kFirstAddress = uint64_t{1} << 46;  // outside what the kernel maps for a process

std::atomic<bool> numerics_on{true};

// Host memory is recycled by size class, so that a training step touches warm pages from its second run on.
class HostPool {
 public:
  void* take(size_t nbytes, size_t* size) {
    *size = size_class(nbytes);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto& list = free_[*size];
      if (!list.empty()) {
        void* memory = list.back();
        list.pop_back();
        cached_ -= *size;
        used_ += *size;
        return memory;
      }
      used_ += *size;
    }
    const size_t alignment = *size >= kHugePage ? kHugePage : kAlignment;
    void* memory = nullptr;
    const int failed = posix_memalign(&memory, alignment, *size);
    TORCH_CHECK(failed == 0, "no host memory for ", nbytes, " bytes of an hpu tensor; use a smaller model or batch, "
                "or shapes only (HPUCLUSTER_NUMERICS=off)");
    if (*size >= kHugePage) madvise(memory, *size, MADV_HUGEPAGE);
    return memory;
  }

  void give(void* memory, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ -= size;
    // Keep at most as much as is in use, plus a floor for programs that drop everything between steps.
    if (cached_ + size > used_ + (size_t{1} << 30)) {
      std::free(memory);
      return;
    }
    free_[size].push_back(memory);
    cached_ += size;
  }

 private:
  // Four classes per power of two: at most 25 % of slack.
  static size_t size_class(size_t nbytes) {
    size_t step = kAlignment;
    while (step * 8 < nbytes) step <<= 1;
    return (nbytes + step - 1) / step * step;
  }

  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
  size_t used_ = 0;
  size_t cached_ = 0;
};

// These outlive every tensor, also those that are freed while the interpreter goes down.
HostPool& pool() {
  static auto* instance = new HostPool();
  return *instance;
}

struct EventLog {
  std::mutex mutex;
  std::vector<MemoryEvent> events;
};

EventLog& event_log() {
  static auto* instance = new EventLog();
  return *instance;
}

void log_event(const Block& block, int64_t nbytes, int64_t slot = -1) {
  auto& log = event_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  log.events.push_back({block.address, nbytes, slot});
}

// Blocks by address: PyTorch's serialization wraps a bare device pointer into a tensor, which must find its block again.
struct Registry {
  std::mutex mutex;
  std::unordered_map<uint64_t, Block*> blocks;
};

Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

uint64_t next_address(size_t nbytes) {
  static std::atomic<uint64_t> next{kFirstAddress};
  return next.fetch_add((nbytes + kAddressGrain - 1) / kAddressGrain * kAddressGrain);
}

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block->resident && block->nbytes > 0) log_event(*block, -static_cast<int64_t>(block->nbytes));
  if (block->address) {
    std::lock_guard<std::mutex> lock(registry().mutex);
    registry().blocks.erase(block->address);
  }
  release_host(*block);
  delete block;
}

// Gives a block its size and a device address of its own.
void place(Block& block, size_t nbytes) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  if (block.address) registry().blocks.erase(block.address);
  block.nbytes = nbytes;
  block.address = nbytes ? next_address(nbytes) : 0;
  if (nbytes) registry().blocks.emplace(block.address, &block);
}

c10::DataPtr data_of(Block& block) {
  return {reinterpret_cast<void*>(block.address), &block, &delete_block, c10::Device(kHpu, 0)};
}

class HpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    auto* block = new Block();
    place(*block, nbytes);
    return data_of(*block);
  }

  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* /*dest*/, const void* /*src*/, std::size_t /*count*/) const override {
    TORCH_CHECK(false, "raw copies between hpu storages are not supported; copy tensors");
  }
};

}  // namespace

c10::Allocator* allocator() {
  static auto* instance = new HpuAllocator();
  return instance;
}

bool owns_block(const c10::StorageImpl& storage) { return storage.data_ptr().get_deleter() == &delete_block; }

Block* block_of(const c10::StorageImpl& storage) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() == &delete_block) return static_cast<Block*>(data.get_context());
  std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().blocks.find(reinterpret_cast<uint64_t>(data.get()));
  TORCH_CHECK(found != registry().blocks.end(), "this storage claims to be on hpu but was not allocated there");
  return found->second;
}

Block* block_at(uint64_t address) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().blocks.find(address);
  return found == registry().blocks.end() ? nullptr : found->second;
}

void ensure_host(Block& block) {
  if (block.host || block.nbytes == 0) return;
  block.host = pool().take(block.nbytes, &block.host_size);
  if (!numerics_on) std::memset(block.host, 0, block.nbytes);
}

void require_value(const Block& block) {
  TORCH_CHECK(!block.lost, "this tensor has no value, because the graph that computes it failed: ", *block.lost);
}

void release_host(Block& block) {
  if (block.host && block.host_size) pool().give(block.host, block.host_size);
  block.adopted.clear();
  block.host = nullptr;
  block.host_size = 0;
}

void adopt_host(Block& block, c10::DataPtr&& memory) {
  release_host(block);
  block.host = memory.get();
  block.adopted = std::move(memory);
}

void make_resident(Block& block, int64_t slot) {
  if (block.resident) return;
  block.resident = true;
  if (block.nbytes > 0) log_event(block, static_cast<int64_t>(block.nbytes), slot);
}

void resize_block(c10::StorageImpl& storage, size_t nbytes) {
  Block& block = *block_of(storage);
  const size_t before = block.nbytes;
  if (nbytes == before) return;
  if (block.resident && before > 0) log_event(block, -static_cast<int64_t>(before));
  Block old;
  std::swap(old.host, block.host);
  std::swap(old.host_size, block.host_size);
  std::swap(old.adopted, block.adopted);
  const bool resident = block.resident && nbytes > 0;
  block.resident = false;  // its leaving was logged above
  place(block, nbytes);
  if (old.host) {
    ensure_host(block);
    if (block.host) std::memcpy(block.host, old.host, std::min(before, nbytes));
  }
  release_host(old);
  // The block stays the same: recordings of captured graphs point to it.
  storage.set_data_ptr(c10::DataPtr()).release_context();
  storage.set_data_ptr_noswap(data_of(block));
  storage.set_nbytes(nbytes);
  if (resident) make_resident(block);
}

std::vector<MemoryEvent> drain_memory_events() {
  auto& log = event_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  std::vector<MemoryEvent> events;
  events.swap(log.events);
  return events;
}

void set_numerics(bool on) { numerics_on = on; }
bool numerics() { return numerics_on; }

}  // namespace hpu
