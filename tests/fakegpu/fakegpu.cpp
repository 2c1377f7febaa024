// A pretend GPU for tests: a device of PyTorch (PrivateUse1) whose kernels are the CPU's, and whose memory, streams and
// process rules are a GPU's (memory.h, streams.h).  Only what these rules need is written here; every other operator
// falls back to the CPU's kernel.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include "memory.h"

namespace py = pybind11;
using namespace fakegpu;
using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

namespace {

DeviceAllocator allocator;
REGISTER_ALLOCATOR(KIND, &allocator);
PinnedAllocator pinned_allocator;

// Random numbers: the device's own generator stands in for the CPU's while a seeded kernel runs.

struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(DeviceIndex index) {
    device_ = Device(KIND, index);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

const at::Generator& default_generator(DeviceIndex index) {
  static auto& all = *new std::vector<at::Generator>;
  while (int(all.size()) <= known(index)) {
    auto made = at::make_generator<Generator>(DeviceIndex(all.size()));
    made.set_current_seed(c10::default_rng_seed_val);
    all.push_back(made);
  }
  return all[known(index)];
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return !visible().empty(); }
  DeviceIndex deviceCount() const override { return owner ? physical.size() : visible().size(); }
  bool hasPrimaryContext(DeviceIndex) const override { return owner == getpid(); }
  void init() const override { fakegpu::init(); }
  void setCurrentDevice(DeviceIndex index) const override {
    fakegpu::init();
    current = index;
  }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override { return std::exchange(current, index); }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<Generator>(DeviceIndex(known(index)));
  }
  bool isPinnedPtr(const void* at) const override { return is_pinned(at); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  Device getDeviceFromPtr(void* address) const override {
    int device = device_of(address);
    TORCH_CHECK(device >= 0, "not an address of a fakegpu");
    return Device(KIND, device);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto fresh = allocator.allocate(size);
    size_t kept = std::min(size, storage.nbytes());
    drain_all(current, current_stream(current));
    if (kept) memcpy(bytes_of(fresh.get()), bytes_of(storage.data()), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};
Hooks hooks;
[[maybe_unused]] bool hooked = (at::RegisterPrivateUse1HooksInterface(&hooks), true);

// Device index -1 means the current one and is resolved in every method: else `with stream:` silently does nothing.

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = KIND;
  static Stream stream_of(int device, int64_t id) {
    return Stream(Stream::UNSAFE, Device(KIND, known(device)), id);
  }
  static void check(Device device) {
    TORCH_CHECK(device.index() < hooks.deviceCount(), "fakegpu error: invalid device ordinal");
  }
  c10::DeviceType type() const override { return KIND; }
  Device exchangeDevice(Device device) const override {
    check(device);
    return Device(KIND, std::exchange(current, device.index()));
  }
  Device getDevice() const override { return Device(KIND, current); }
  void setDevice(Device device) const override {
    init();
    check(device);
    current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override { current = device.index(); }
  Stream getStream(Device device) const override {
    return stream_of(device.index(), current_stream(device.index()));
  }
  Stream getDefaultStream(Device device) const override { return stream_of(device.index(), 0); }
  Stream getNewStream(Device device, int) const override {
    Lock lock(big_lock);
    return stream_of(device.index(), next_stream++);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream exchangeStream(Stream stream) const override {
    int device = known(stream.device_index());
    auto old = current_stream(device);
    current_streams[device] = stream.id();
    return stream_of(device, old);
  }
  DeviceIndex deviceCount() const noexcept override { return hooks.deviceCount(); }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new Event();
    fakegpu::record(*static_cast<Event*>(*event), stream.device_index(), stream.id());
  }
  void block(void* event, const Stream& stream) const override {
    if (!event) return;
    auto e = *static_cast<Event*>(event);
    if (e.device == stream.device_index() && e.stream == stream.id()) return;
    stream_waits(stream.device_index(), stream.id(), e.device, e.stream, e.count);
  }
  bool queryEvent(void* event) const override { return !event || has_happened(*static_cast<Event*>(event)); }
  bool queryStream(const Stream& stream) const override {
    Lock lock(big_lock);
    auto& queue = queues[{stream.device_index(), stream.id()}];
    bool done = queue.done == queue.pushed;
    if (done) host_knows({stream.device_index(), stream.id()}, queue.pushed);
    return done;
  }
  void synchronizeStream(const Stream& stream) const override {
    int device = known(stream.device_index());
    host_drain(device, stream.id(), tip(device, stream.id()), "stream");
  }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    auto e = *static_cast<Event*>(event);
    host_drain(e.device, e.stream, e.count, "event");
  }
  void synchronizeDevice(const DeviceIndex device) const override { host_drain_device(known(device), "device"); }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const Stream& stream) const override {
    allocator.recordStream(pointer, stream);
  }
  double elapsedTime(void* from, void* to, const DeviceIndex) const override {
    synchronizeEvent(from);
    synchronizeEvent(to);
    return *static_cast<Event*>(to)->at_ms - *static_cast<Event*>(from)->at_ms;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Operators that allocate, look at storage, or move bytes.

// What the device sees, as a CPU tensor that keeps nothing alive.
Tensor device_side(const Tensor& t) {
  if (t.device().type() != KIND) return t.detach();
  auto options = t.options().device(c10::kCPU).requires_grad(false);
  if (!t.numel()) return at::empty_strided(t.sizes(), t.strides(), options);
  char* at = bytes_of(t.storage().data()) + t.storage_offset() * t.element_size();
  return at::from_blob(at, t.sizes(), t.strides(), options);
}

Device chosen(std::optional<Device> device) {
  return device && device->has_index() ? *device : Device(KIND, current);
}

Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type),
                                   format);
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

void copy_later(const Tensor& source, const Tensor& target, int device) {
  auto to = device_side(target), from = device_side(source);
  push(device, current_stream(device), [to, from] {
    at::AutoDispatchBelowADInplaceOrView guard;
    Tensor(to).copy_(from);
  });
}

// Between devices, both current streams take part: the copy waits for the target's, which then waits for the copy.
void copy_across(const Tensor& source, const Tensor& target) {
  int from = source.device().index(), to = target.device().index();
  stream_waits(from, current_stream(from), to, current_stream(to), tip(to, current_stream(to)));
  copy_later(source, target, from);
  stream_waits(to, current_stream(to), from, current_stream(from), tip(from, current_stream(from)));
}

// As on a GPU: the host waits, unless it said it would not and its side is pinned.
Tensor copy_from(const Tensor& source, const Tensor& target, bool non_blocking) {
  bool up = source.is_cpu(), down = target.is_cpu();
  if (!up && !down && source.device() != target.device()) {
    copy_across(source, target);
    return target;
  }
  int device = up ? target.device().index() : source.device().index();
  copy_later(source, target, device);
  bool may_lag = !(up || down) || (non_blocking && is_pinned((up ? source : target).storage().data()));
  if (may_lag) return target;
  auto stream = current_stream(device);
  host_drain(device, stream, tip(device, stream), up ? "copy up" : down ? "copy down" : "copy");
  return target;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  if (target.sizes() != source.sizes()) at::native::resize_(target, source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar(const Tensor& t) { return at::_local_scalar_dense(t.cpu()); }

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                  std::optional<c10::SymInt> offset) {
  std::optional<int64_t> at;
  if (offset) at = offset->guard_int(__FILE__, __LINE__);
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), at);
}

Tensor view(const Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor& set_storage(Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                    c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source);
  impl->set_storage_offset(offset.guard_int(__FILE__, __LINE__));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  int64_t count = source.nbytes() / self.element_size();
  return set_storage(self, source, 0, c10::fromIntArrayRefSlow({count}), c10::fromIntArrayRefSlow({1}));
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), c10::fromIntArrayRefSlow(source.sizes()),
                     c10::fromIntArrayRefSlow(source.strides()));
}

void record_stream(Tensor& t, Stream stream) { allocator.recordStream(t.storage().data_ptr(), stream); }

// The CPU fallback does not know these.

Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b, c10::IntArrayRef stride,
                   c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                   c10::IntArrayRef output_padding, int64_t groups) {
  InKernel kernel;
  std::optional<Tensor> bias;
  if (b && b->defined()) bias = b->cpu();
  return at::convolution(x.cpu(), w.cpu(), bias, stride, padding, dilation, transposed, output_padding, groups)
      .to(x.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& dy, const Tensor& x, const Tensor& w,
                                                        c10::IntArrayRef stride, c10::IntArrayRef padding,
                                                        c10::IntArrayRef dilation, bool transposed,
                                                        c10::IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  InKernel kernel;
  std::vector<int64_t> bias{transposed ? w.size(1) * groups : w.size(0)};
  auto [a, b, c] = at::convolution_backward(dy.cpu(), x.cpu(), w.cpu(), bias, stride, padding, dilation, transposed,
                                            output_padding, groups, mask);
  auto up = [&](const Tensor& t) { return t.defined() ? t.to(x.device()) : t; };
  return {up(a), up(b), up(c)};
}

// The device of the first tensor that has one, as kernels of a GPU run where their tensors are.
int device_among(const torch::jit::Stack& stack) {
  for (auto& value : stack) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == KIND)
      return value.toTensor().device().index();
    if (value.isTensorList())
      for (const Tensor& t : value.toTensorVector())
        if (t.defined() && t.device().type() == KIND) return t.device().index();
  }
  return current;
}

// Kernels whose result tells the host something (how large it is, whether it is true) are waited for on a GPU as well.
bool tells_host(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  if (op.schema().name().rfind("aten::index", 0)) return true;
  for (auto& value : stack) {  // of indices, only masks have a size that must be asked for
    if (!value.isList()) continue;
    for (const c10::IValue& each : value.toListRef())
      if (each.isTensor() && each.toTensor().defined()) {
        auto type = each.toTensor().scalar_type();
        if (type == at::kBool || type == at::kByte) return true;
      }
  }
  return false;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  init();
  c10::DeviceGuard guard(Device(KIND, device_among(*stack)));
  auto stream = current_stream(current);
  if (tells_host(op, *stack)) host_drain(current, stream, push(current, stream, [] {}), op.schema().name());
  InKernel kernel;
  drain_all(current, stream);
  bool seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  at::Generator generator = default_generator(current);
  for (auto& value : *stack) {
    if (!value.isGenerator() || value.toGenerator().device().type() != KIND) continue;
    generator = value.toGenerator();
    value = c10::IValue();
    seeded = true;
  }
  if (!seeded) return at::native::cpu_fallback(op, stack);
  auto cpu = at::detail::getDefaultCPUGenerator();
  auto kept = cpu.get_state();
  cpu.set_state(generator.get_state());
  at::native::cpu_fallback(op, stack);
  generator.set_state(cpu.get_state());
  cpu.set_state(kept);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("resize_", resize);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("record_stream", record_stream);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

// A host function in the order of a stream, as cudaLaunchHostFunc; without one, a stream cannot play a communicator.
uint64_t launch(int device, int64_t stream, py::object function) {
  auto* kept = new py::object(std::move(function));
  py::gil_scoped_release released;
  return push(device, stream, [kept] {
    py::gil_scoped_acquire acquired;
    try {
      (*kept)();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("fakegpu stream");
    }
    delete kept;
  });
}

int64_t new_stream(int device, bool threaded) {
  Lock lock(big_lock);
  auto id = next_stream++;
  if (threaded) always_threaded.insert({device, id});
  return id;
}

py::dict memory_figures(int device) {
  init();
  auto& memory = memories.at(device);
  py::dict figures;
  figures["used"] = memory.used;
  figures["peak"] = memory.peak;
  figures["capacity"] = memory.capacity;
  figures["allocations"] = memory.allocations;
  return figures;
}

void set_policy(const std::string& name, int delay) {
  TORCH_CHECK(name == "eager" || name == "late" || name == "thread", "no policy of streams: ", name);
  policy = name == "late" ? Policy::LATE : name == "thread" ? Policy::THREAD : Policy::EAGER;
  delay_us = delay;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using nogil = py::call_guard<py::gil_scoped_release>;
  m.def("device_count", [] { return int(hooks.deviceCount()); });
  m.def("current_device", [] { return current; });
  m.def("set_device", [](int device) { hooks.setCurrentDevice(device); });
  m.def("is_initialized", [] { return owner == getpid(); });
  m.def("in_bad_fork", [] { return owner != 0 && owner != getpid(); });
  m.def("init", [] { init(); });
  m.def("physical", [](int device) { init(); return physical.at(device); });
  m.def("policy", set_policy, py::arg("name"), py::arg("delay_us") = 0);
  m.def("new_stream", new_stream);
  m.def("current_stream", current_stream);
  m.def("tip", tip);
  m.def("drain", drain, nogil());
  m.def("done", [](int device, int64_t stream, uint64_t count) {
    Lock lock(big_lock);
    return queues[{device, stream}].done >= count;
  });
  m.def("stream_waits", [](int device, int64_t stream, int64_t other, uint64_t count) {
    stream_waits(device, stream, device, other, count);
  }, nogil());
  m.def("count_waits", [] {
    Lock lock(big_lock);
    host_waits.clear();
    counting_waits = true;
  });
  m.def("counted_waits", [] {
    Lock lock(big_lock);
    counting_waits = false;
    std::vector<std::pair<std::string, long>> found;
    for (auto& wait : host_waits) found.push_back({wait.what, wait.thread});
    return found;
  });
  m.def("launch", launch);
  m.def("device_side", device_side);
  m.def("memory", memory_figures);
  m.def("default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(device)));
  });
}
