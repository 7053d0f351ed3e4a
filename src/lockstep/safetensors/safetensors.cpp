#include "lockstep/safetensors/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/files/mapped_file.h"

namespace lockstep {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors is little-endian, and data is not converted");

[[noreturn]] void fail(const std::string& action, const std::string& path) {
  const int code = errno;
  throw Error("cannot " + action + " " + path + ": " + errno_text(code), path,
              "check that the file exists and that you may read it");
}

// Files from this size on are mapped, smaller ones are read.
constexpr std::size_t kMappedFromBytes = std::size_t{16} << 20;

// The bytes of a file: mapped, or read into memory.
class Content {
 public:
  explicit Content(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not block
    if (!fd) fail("open", path);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) fail("examine", path);
    if (!S_ISREG(status.st_mode)) {
      throw Error(path + " is not a regular file", path, "give the path of a safetensors file");
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ >= kMappedFromBytes) {
      map_ = std::make_unique<MappedFile>(std::move(fd), size_, MappedFile::Access::CopyOnWrite, path);
    } else if (size_ > 0) {
      read_all(fd, path);
    }
  }
  char* data() const { return map_ ? map_->data() : memory_.get(); }
  std::size_t size() const { return size_; }
  void require_whole() const {
    if (map_) map_->require_whole();
  }

 private:
  void read_all(const UniqueFd& fd, const std::string& path) {
    memory_.reset(static_cast<char*>(::operator new(size_, kAlignment)));
    for (std::size_t got = 0; got < size_;) {
      const ssize_t more = ::pread(fd.get(), data() + got, size_ - got, static_cast<off_t>(got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) fail("read", path);
      if (more == 0) throw Error(fmt::format("the file ended after {} of {} bytes", got, size_), path, "load it again");
      got += static_cast<std::size_t>(more);
    }
  }

  static constexpr std::align_val_t kAlignment{64};  // as LibTorch's own tensors
  struct Free {
    void operator()(char* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<MappedFile> map_;     // of a large file
  std::unique_ptr<char, Free> memory_;  // of a small one
  std::size_t size_ = 0;
};

// The format's names and LibTorch's. Looked up by name, because older versions of LibTorch lack some of the types.
constexpr std::pair<std::string_view, std::string_view> kDtypes[] = {
    {"F32", "Float"},
    {"F16", "Half"},
    {"BF16", "BFloat16"},
    {"F64", "Double"},
    {"I64", "Long"},
    {"I32", "Int"},
    {"I16", "Short"},
    {"I8", "Char"},
    {"U8", "Byte"},
    {"BOOL", "Bool"},
    {"C64", "ComplexFloat"},
    {"U16", "UInt16"},
    {"U32", "UInt32"},
    {"U64", "UInt64"},
    {"F8_E4M3", "Float8_e4m3fn"},
    {"F8_E4M3FNUZ", "Float8_e4m3fnuz"},
    {"F8_E5M2", "Float8_e5m2"},
    {"F8_E5M2FNUZ", "Float8_e5m2fnuz"},
    {"F8_E8M0", "Float8_e8m0fnu"},
};

// The header's check stops at a zero dimension; LibTorch multiplies the other dimensions too.
void check_dimensions(const SafetensorsEntry& entry, const std::string& path) {
  std::int64_t elements = 1;
  for (const std::int64_t size : entry.shape) {
    if (!__builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements)) continue;
    throw Error(fmt::format("tensor \"{}\" is empty, but its dimensions overflow", entry.name), path, "write it again");
  }
}

}  // namespace

struct SafetensorsFile::Opened {
  explicit Opened(const std::string& file_path)
      : path(file_path),
        content(std::make_shared<Content>(file_path)),
        header(parse_safetensors_header({content->data(), content->size()}, content->size(), file_path)) {
    content->require_whole();
    index.reserve(header.entries.size());
    for (std::size_t i = 0; i < header.entries.size(); ++i) index.emplace(header.entries[i].name, i);
  }

  std::string path;
  std::shared_ptr<const Content> content;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> index;  // views into the header's names
};

SafetensorsFile::SafetensorsFile(const std::string& path) : opened_(std::make_shared<Opened>(path)) {}

const std::string& SafetensorsFile::path() const { return opened_->path; }
const std::vector<SafetensorsEntry>& SafetensorsFile::entries() const { return opened_->header.entries; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return opened_->header.metadata; }
bool SafetensorsFile::contains(const std::string& name) const { return opened_->index.count(name) != 0; }

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = opened_->index.find(name);
  if (found != opened_->index.end()) return entries()[found->second];
  throw Error(fmt::format("there is no tensor \"{}\" among the {} tensors of the file", name, entries().size()), path(),
              "list the file's tensors and choose one of them");
}

void SafetensorsFile::require_whole() const { opened_->content->require_whole(); }

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  const auto dtype = dtype_of_safetensors(found.dtype);
  if (!dtype) {
    throw Error(fmt::format("tensor \"{}\" is {}, a type that this LibTorch does not have", name, found.dtype), path(),
                "convert the file to F32, F16 or BF16, or build against a newer LibTorch");
  }
  check_dimensions(found, path());
  if (found.bytes() == 0) return at::empty(found.shape, *dtype);
  opened_->content->require_whole();
  char* data = opened_->content->data() + opened_->header.data_offset + found.begin_byte;
  const auto keep = [content = opened_->content](void*) {};
  if (*dtype == at::kBool) return at::from_blob(data, found.shape, keep, at::kByte).ne(0);  // a byte may have any value
  const at::Tensor view = at::from_blob(data, found.shape, keep, *dtype);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(*dtype) == 0;
  return is_aligned ? view : view.clone();
}

std::optional<at::ScalarType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [format_name, torch_name] : kDtypes) {
    if (format_name != name) continue;
    for (int i = 0; i < static_cast<int>(at::ScalarType::Undefined); ++i) {
      const auto dtype = static_cast<at::ScalarType>(i);
      if (c10::toString(dtype) == torch_name) return dtype;
    }
  }
  return std::nullopt;
}

std::optional<std::string> safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [format_name, torch_name] : kDtypes) {
    if (c10::toString(dtype) == torch_name) return std::string(format_name);
  }
  return std::nullopt;
}

}  // namespace lockstep
