#include "lockstep/parallel/fused/weights/read_watch.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/kernels/large_pages.h"
#include "lockstep/parallel/fused/weights/watched_key.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_memory(const char* what, std::size_t bytes) {
  throw Error(fmt::format("{} of {} bytes for weights that are gathered failed: {}", what, bytes, std::strerror(errno)),
              "fused optimizer of stage 3", "give the process more memory, or start more ranks");
}

struct Entry {
  ReadWatcher* watcher;
  std::size_t index;
};

struct WatchedTensors {
  std::shared_mutex mutex;
  std::unordered_map<const c10::TensorImpl*, Entry> parameters;
};

// Never destroyed: a static model may end after everything else.
WatchedTensors& watched() {
  static auto& all = *new WatchedTensors;
  return all;
}

// A tensor without storage: LibTorch throws when it would read one.
struct WithoutStorage : c10::TensorImpl {
  explicit WithoutStorage(const at::Tensor& like)
      : TensorImpl(like.key_set().add(kWatchedKey), like.dtype(), like.device()) {
    set_storage_access_should_throw();
    set_sizes_and_strides(like.sizes(), like.strides());
  }
};

}  // namespace

// What the storage of watched tensors refers to.
struct WatchedMemory::Range {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t element_size = 1;
  std::size_t number = 0;
  std::atomic<ReadWatcher*> watcher{nullptr};

  ~Range() {
    if (data != nullptr) ::munmap(data, bytes);
  }
};

namespace {

void release_range(void* context) { delete static_cast<std::shared_ptr<WatchedMemory::Range>*>(context); }

// Null if the tensor has other memory.
WatchedMemory::Range* range_of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.has_storage()) return nullptr;
  const c10::DataPtr& data = impl.unsafe_storage().data_ptr();
  if (data.get_deleter() != &release_range) return nullptr;
  return static_cast<std::shared_ptr<WatchedMemory::Range>*>(data.get_context())->get();
}

at::Tensor watched_tensor(const c10::Storage& storage, std::int64_t offset, const at::Tensor& like) {
  return tensor_over(storage, offset, like, like.key_set().add(kWatchedKey));
}

// The element of the range with which the tensor begins.
std::int64_t first_element(const WatchedMemory::Range& range, const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto begin = reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().data_ptr().get());
  const std::uintptr_t bytes = begin - reinterpret_cast<std::uintptr_t>(range.data) +
                               static_cast<std::uintptr_t>(impl.storage_offset()) * impl.itemsize();
  return static_cast<std::int64_t>(bytes / range.element_size);
}

[[noreturn]] void refuse_orphan() {
  throw Error(
      "a weight was read that is sharded among ranks, or that deferred() has not made yet: by data(), "
      "before an operation had read the weight itself; or after its DistributedDataParallel, optimizer or parameter "
      "was gone",
      "fused optimizer of stage 3",
      "write detach() in place of data(), and keep neither beyond the forward that made it; call unfuse() before the "
      "DistributedDataParallel or the optimizer is destroyed, or unshard() before the Trainer is: every rank then has "
      "all weights");
}

}  // namespace

WatchedMemory::WatchedMemory(ReadWatcher& watcher, std::size_t number, std::int64_t numel, at::ScalarType dtype)
    : range_(std::make_shared<Range>()) {
  watch(watcher, number, numel, dtype, -1);
  advise_large_pages(range_->data, range_->bytes);
}

WatchedMemory::WatchedMemory(ReadWatcher& watcher, std::size_t number, TransientMemory of_host)
    : range_(std::make_shared<Range>()), of_host_(std::move(of_host)) {
  watch(watcher, number, of_host_.memory.numel(), of_host_.memory.scalar_type(), of_host_.file.get());
  of_host_.file.reset();
}

// A private mapping of a file has the file's own pages, but for those that this process writes.
void WatchedMemory::watch(ReadWatcher& watcher, std::size_t number, std::int64_t numel, at::ScalarType dtype,
                          int file) {
  watch_operations();
  const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
  const int pages = MAP_PRIVATE | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0);
  void* data = ::mmap(nullptr, bytes, PROT_NONE, pages, file, 0);
  if (data == MAP_FAILED) refuse_memory("a mapping", bytes);
  range_->data = data;
  range_->bytes = bytes;
  range_->element_size = c10::elementSize(dtype);
  range_->number = number;
  range_->watcher = &watcher;
  whole_ = at::from_blob(
      data, {numel}, [range = range_](void*) {}, at::TensorOptions().dtype(dtype));
}

// Memory that is open stays so: after an error of the group, an operation may still write to it.
WatchedMemory::~WatchedMemory() { range_->watcher = nullptr; }

// The storage is that of this tensor alone, because torch::save writes whole storages.
at::Tensor WatchedMemory::view(std::int64_t offset, const at::Tensor& like) const {
  auto* const data = static_cast<std::byte*>(range_->data) + static_cast<std::size_t>(offset) * like.element_size();
  const c10::Storage storage(
      c10::Storage::use_byte_size_t(), like.nbytes(),
      c10::DataPtr(data, new std::shared_ptr<Range>(range_), &release_range, c10::Device(c10::kCPU)), nullptr,
      /*resizable=*/false);
  return watched_tensor(storage, 0, like);
}

void WatchedMemory::open() {
  if (::mprotect(range_->data, range_->bytes, PROT_READ | PROT_WRITE) != 0) refuse_memory("opening", range_->bytes);
  is_open_ = true;
}

void WatchedMemory::close() {
  is_open_ = false;
  // Pages that were given back read as zeros, which must not happen in silence.
  if (::madvise(range_->data, range_->bytes, MADV_DONTNEED) != 0) refuse_memory("giving back", range_->bytes);
  if (::mprotect(range_->data, range_->bytes, PROT_NONE) != 0) refuse_memory("closing", range_->bytes);
  if (of_host_.leave) of_host_.leave();
}

at::Tensor watched_without_memory(const at::Tensor& like) {
  return at::Tensor(c10::make_intrusive<WithoutStorage>(like));
}

bool is_watched(const at::Tensor& tensor) { return tensor.key_set().has(kWatchedKey); }

bool is_absent(const at::Tensor& tensor) { return is_watched(tensor) && !tensor.unsafeGetTensorImpl()->has_storage(); }

bool has_become(const at::Tensor& parameter, const at::Tensor& content) {
  const c10::TensorImpl &one = *parameter.unsafeGetTensorImpl(), &other = *content.unsafeGetTensorImpl();
  if (!one.has_storage() || !other.has_storage()) return false;
  return one.unsafe_storage().unsafeGetStorageImpl() == other.unsafe_storage().unsafeGetStorageImpl();
}

void become(const at::Tensor& parameter, const at::Tensor& content) {
  parameter.unsafeGetTensorImpl()->shallow_copy_from(content.getIntrusivePtr());
}

void WatchedParameters::add(const at::Tensor& parameter, ReadWatcher& watcher, std::size_t index) {
  const std::unique_lock<std::shared_mutex> lock(watched().mutex);
  watched().parameters[parameter.unsafeGetTensorImpl()] = {&watcher, index};
  parameters_.push_back(parameter);
}

WatchedParameters::~WatchedParameters() {
  const std::unique_lock<std::shared_mutex> lock(watched().mutex);
  for (const at::Tensor& parameter : parameters_) watched().parameters.erase(parameter.unsafeGetTensorImpl());
}

std::pair<ReadWatcher*, std::size_t> watcher_of(const at::Tensor& tensor) {
  if (const WatchedMemory::Range* range = range_of(tensor)) {
    ReadWatcher* watcher = range->watcher;
    if (watcher == nullptr) refuse_orphan();
    return {watcher, watcher->parameter_at(range->number, first_element(*range, tensor))};
  }
  if (tensor.unsafeGetTensorImpl()->has_storage()) return {nullptr, 0};
  const std::shared_lock<std::shared_mutex> lock(watched().mutex);
  const auto found = watched().parameters.find(tensor.unsafeGetTensorImpl());
  if (found == watched().parameters.end()) refuse_orphan();
  return {found->second.watcher, found->second.index};
}

void watch_by_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
  const bool is_in_range = range_of(tensor) != nullptr;
  if (is_in_range == is_watched(tensor)) return;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const std::int64_t offset = tensor.unsafeGetTensorImpl()->storage_offset();
  become(tensor, is_in_range ? watched_tensor(storage, offset, tensor)
                             : tensor_over(storage, offset, tensor, tensor.key_set().remove(kWatchedKey)));
}

}  // namespace lockstep
