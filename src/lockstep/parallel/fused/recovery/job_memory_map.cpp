#include "lockstep/parallel/fused/recovery/job_memory_map.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/random/random_bits.h"

namespace lockstep {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
// A place is a head, text and tensors, and then the log. Pages come when they are written.
constexpr std::size_t kRecordBytes = std::size_t{16} << 20;
constexpr std::size_t kLogBytes = std::size_t{16} << 20;
constexpr std::size_t kOutcomePlace = 2;  // behind the two places of records, which take turns
static_assert(kOutcomePlace + 1 == JobMemoryMap::kPlaces);
static_assert(sizeof(MemoryHeader) <= kHeaderBytes);

// Not 0, which a place has that nobody has written.
std::uint64_t random_number() { return random_bits() | 1; }

std::size_t offset_of(std::size_t place) { return kHeaderBytes + place * (kRecordBytes + kLogBytes); }

}  // namespace

struct JobMemoryMap::Head {
  std::uint64_t writer = 0;
  std::uint64_t number = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t log_bytes = 0;
};

std::size_t JobMemoryMap::end_of_records() { return offset_of(kOutcomePlace + 1); }

JobMemoryMap::JobMemoryMap(int file) : file_(file), writer_(random_number()) {
  grow(end_of_records());
  shm::reserve_pages(file_, 0, kHeaderBytes);
  pages_ = shm::Mapping::of_file(file_, end_of_records());
}

std::shared_ptr<JobMemoryMap> JobMemoryMap::of_rank() {
  const int file = job_memory_of_rank();
  if (file < 0) return nullptr;
  try {
    return std::make_shared<JobMemoryMap>(file);
  } catch (const Error& error) {
    log_warning("the job's memory cannot be used: {}", error.what());
    return nullptr;
  }
}

void JobMemoryMap::grow(std::size_t bytes) const {
  struct stat status {};
  // A limit that is passed would end this process by SIGXFSZ.
  rlimit files{};
  const bool too_large = ::getrlimit(RLIMIT_FSIZE, &files) == 0 && bytes > files.rlim_cur;
  if (!too_large) {
    const bool is_there = ::fstat(file_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= bytes;
    if (is_there || ::ftruncate(file_, static_cast<off_t>(bytes)) == 0) return;
    // Another rank may have let it grow further meanwhile, and it never shrinks.
    const int code = errno;
    if (::fstat(file_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= bytes) return;
    errno = code;
  } else {
    errno = EFBIG;
  }
  throw Error(fmt::format("cannot let the job's memory grow to {} bytes: {}", bytes, errno_text(errno)),
              "memory that outlives the ranks", "raise the limit of file sizes (ulimit -f)");
}

// Rarely asks for pages, because that looks at the host's memory.
void JobMemoryMap::reserve(std::size_t offset, std::size_t bytes, std::size_t most, std::size_t& reserved) const {
  if (bytes <= reserved) return;
  const std::size_t with_room = std::min(2 * bytes, most);
  shm::reserve_pages(file_, offset, with_room);
  reserved = with_room;
}

bool JobMemoryMap::write(std::size_t place, std::uint64_t number, const Record& record, const std::string& log) {
  const Head head{writer_, number, record.text.size(), record.bytes.size(), log.size()};
  const std::size_t bytes = sizeof(head) + record.text.size() + record.bytes.size();
  if (bytes > kRecordBytes || log.size() > kLogBytes) return false;
  Place& mine = places_[place];
  reserve(offset_of(place), bytes, kRecordBytes, mine.reserved);
  reserve(offset_of(place) + kRecordBytes, log.size(), kLogBytes, mine.log_reserved);
  std::byte* const first = pages_->data() + offset_of(place);
  Head before;
  std::memcpy(&before, first, sizeof(before));
  const bool is_mine = before.writer == writer_;
  const std::size_t written = is_mine ? std::min<std::size_t>(mine.log_bytes, log.size()) : 0;
  std::memcpy(first, &head, sizeof(head));
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the log is this object's only after that
  std::memcpy(first + sizeof(head), record.text.data(), record.text.size());
  if (!record.bytes.empty()) {
    std::memcpy(first + sizeof(head) + record.text.size(), record.bytes.data(), record.bytes.size());
  }
  std::memcpy(first + kRecordBytes + written, log.data() + written, log.size() - written);
  mine.log_bytes = log.size();
  return true;
}

std::optional<JobMemoryMap::Record> JobMemoryMap::read(std::size_t place, std::uint64_t& number) const {
  Head head;
  const std::byte* const in = pages_->data() + offset_of(place);
  std::memcpy(&head, in, sizeof(head));
  const std::size_t most = kRecordBytes - sizeof(head);
  if (head.text_bytes > most || head.bytes > most - head.text_bytes || head.log_bytes > kLogBytes) return std::nullopt;
  Record record;
  const auto* const text = reinterpret_cast<const char*>(in + sizeof(head));
  record.text.assign(text, head.text_bytes);
  const std::byte* const bytes = in + sizeof(head) + head.text_bytes;
  record.bytes.assign(bytes, bytes + head.bytes);
  record.log.assign(reinterpret_cast<const char*>(in + kRecordBytes), head.log_bytes);
  number = head.number;
  return record;
}

bool JobMemoryMap::begin_update(std::uint64_t number, const Record& record, const std::string& log) {
  shm::Word& newest = header().record;
  const std::uint64_t next = newest.load() + 1;
  if (!write(next % 2, number, record, log)) return false;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  newest.store(next);
  return true;
}

bool JobMemoryMap::note_outcome(std::uint64_t number, const Record& record) {
  return write(kOutcomePlace, number, record, "");
}

std::optional<JobMemoryMap::Record> JobMemoryMap::begun(std::uint64_t& number) const {
  const std::uint64_t newest = header().record.load();
  return newest == 0 ? std::nullopt : read(newest % 2, number);
}

std::optional<JobMemoryMap::Record> JobMemoryMap::outcome(std::uint64_t number) const {
  std::uint64_t found = 0;
  std::optional<Record> record = read(kOutcomePlace, found);
  return found == number ? std::move(record) : std::nullopt;
}

}  // namespace lockstep
