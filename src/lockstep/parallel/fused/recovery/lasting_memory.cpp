#include "lockstep/parallel/fused/recovery/lasting_memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/optim/update/update_run.h"

namespace lockstep {
namespace {

constexpr std::size_t kArrays = 2 + UpdateRun::kMaxBuffers;  // weights, sums, state

// So far is each array of a bucket behind the start of its pages. An update runs over all of them at once: a load waits
// for an earlier store whose address has the same last 12 bits.
constexpr std::size_t start_of(std::size_t array) { return array * 17 * shm::kLineBytes; }

std::size_t in_whole(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

at::Tensor over(const std::shared_ptr<shm::Mapping>& pages, std::size_t offset, std::int64_t numel,
                at::ScalarType dtype) {
  return at::from_blob(
      pages->data() + offset, {numel}, [pages](void*) {}, at::TensorOptions().dtype(dtype));
}

// If `body` throws on some rank, all throw.
template <typename Body>
void together(Communicator& communicator, const Body& body) {
  std::optional<Error> mine;
  try {
    body();
  } catch (const Error& error) {
    mine = error;
  }
  const at::Tensor any = at::full({1}, mine ? 1 : 0, at::TensorOptions().dtype(at::kInt));
  if (communicator.world_size() > 1) communicator.all_reduce(any, ReduceOp::Max);
  if (mine) throw Error(*mine);
  if (*any.data_ptr<int>() == 0) return;
  throw Error("another rank cannot use the memory of a fused update that outlives the ranks",
              communicator.membership().where(), "read that rank's message, which says why");
}

}  // namespace

std::uint64_t LastingMemory::Shape::digest() const {
  std::uint64_t digest = names;
  mix_into(digest, parameters);
  mix_into(digest, static_cast<std::uint64_t>(most_ranks));
  for (const Bucket& bucket : buckets) {
    for (const auto value : {bucket.numel, bucket.tail, static_cast<std::int64_t>(bucket.dtype)}) {
      mix_into(digest, static_cast<std::uint64_t>(value));
    }
  }
  return digest;
}

std::string LastingMemory::Shape::words() const {
  std::int64_t numel = 0;
  for (const Bucket& bucket : buckets) numel += bucket.numel;
  return fmt::format("{} virtual shards, {} parameters of {} elements", most_ranks, parameters, numel);
}

LastingMemory::Shape LastingMemory::shape_of(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
                                             std::int64_t most_ranks, int world_size) {
  Shape shape;
  shape.most_ranks = static_cast<int>(most_ranks);
  shape.parameters = gradients.num_parameters();
  for (const FusedBucket& bucket : buckets) {
    const BucketMemory& of = gradients[bucket.index];
    const std::int64_t tail = of.tail.numel() == 0 ? 0 : of.tail.numel() + most_ranks - world_size;
    shape.buckets.push_back({of.contents.buffer.numel(), tail, of.memory.scalar_type()});
    for (const std::size_t i : bucket.parameters) {
      for (const char each : gradients.name(i)) mix_into(shape.names, static_cast<std::uint8_t>(each));
      for (const std::int64_t size : gradients.parameter(i).sizes())
        mix_into(shape.names, static_cast<std::uint64_t>(size));
    }
  }
  return shape;
}

// In the file: header, records, steps (twice), weights and sums and state of each bucket, journal, gradients of each
// rank. Room that is not used has no pages.
LastingMemory::LastingMemory(std::shared_ptr<JobMemoryMap> job, Shape shape, const Lanes& lanes)
    : job_(std::move(job)), shape_(std::move(shape)), lanes_(lanes) {
  const std::size_t page = shm::page_bytes();
  steps_offset_ = JobMemoryMap::end_of_records();
  std::size_t end = steps_offset_ + in_whole(2 * (shape_.parameters + 1) * sizeof(std::int64_t), page);
  for (std::size_t b = 0; b < shape_.buckets.size(); ++b) {
    offsets_.push_back(end);
    end += kArrays * room_bytes(b);
    in_slot_.push_back(slot_bytes_);
    const auto tail_bytes =
        static_cast<std::size_t>(shape_.buckets[b].tail) * c10::elementSize(shape_.buckets[b].dtype);
    slot_bytes_ += room_bytes(b) + in_whole(tail_bytes, page);
  }
  journal_offset_ = end;
  block_bytes_ = lanes_.note_bytes + static_cast<std::size_t>(lanes_.count) * (shm::kLineBytes + lanes_.undo_bytes);
  slots_offset_ = in_whole(end + block_bytes_ * static_cast<std::size_t>(shape_.most_ranks), page);
  slots_.resize(static_cast<std::size_t>(shape_.most_ranks));
  job_->grow(slots_offset_);
  shm::reserve_pages(job_->file(), steps_offset_, offsets_.empty() ? page : offsets_.front() - steps_offset_);
  main_ = shm::Mapping::of_file(job_->file(), slots_offset_);
}

std::shared_ptr<LastingMemory> LastingMemory::open(std::shared_ptr<JobMemoryMap> job, const Shape& shape,
                                                   const Lanes& lanes, bool is_there,
                                                   std::shared_ptr<LastingMemory> earlier, const MemoryHosts& hosts,
                                                   Communicator& communicator) {
  std::shared_ptr<LastingMemory> memory;
  together(communicator, [&] {
    const MemoryHeader& header = job->header();
    Lanes those = lanes;
    if (is_there) {
      if (header.shape.load() != shape.digest()) {
        throw Error(fmt::format("the job's memory has the state of another model ({}) than this one ({})", header.words,
                                shape.words()),
                    communicator.membership().where(), "start another job");
      }
      those.count = static_cast<int>(header.lanes.load());
      if (earlier && earlier->shape().digest() == shape.digest()) memory = std::move(earlier);
    }
    if (!memory) memory.reset(new LastingMemory(std::move(job), shape, those));
  });
  if (!is_there && hosts.place() == 0) memory->start_over();
  if (communicator.world_size() > 1) communicator.barrier();
  return memory;
}

// By one rank of each host. Whatever is killed meanwhile, nobody continues from here until all is written.
void LastingMemory::start_over() const {
  MemoryHeader& header = this->header();
  header.can_begin.store(0);
  header.is_whole.store(0);
  header.journal.store(0);
  header.number.store(0);
  header.slots.store(0);
  header.record.store(0);
  header.lanes.store(static_cast<std::uint64_t>(lanes_.count));
  header.shape.store(shape_.digest());
  const std::string words = shape_.words();
  header.words[words.copy(header.words, MemoryHeader::kWordsBytes - 1)] = '\0';
  header.layout.store(JobMemoryHeader::kLayout);
}

// Elements are dealt to the ranks in equal parts of whole cache lines.
std::int64_t LastingMemory::numel(std::size_t bucket, int world_size) const {
  const Shape::Bucket& of = shape_.buckets[bucket];
  const std::int64_t unit =
      world_size * static_cast<std::int64_t>(shm::kLineBytes) / static_cast<std::int64_t>(c10::elementSize(of.dtype));
  return (of.numel + unit - 1) / unit * unit;
}

std::size_t LastingMemory::room_bytes(std::size_t bucket) const {
  const Shape::Bucket& of = shape_.buckets[bucket];
  const std::size_t bytes = static_cast<std::size_t>(of.numel) * c10::elementSize(of.dtype);
  const std::size_t padding = shm::kLineBytes * static_cast<std::size_t>(shape_.most_ranks);
  return in_whole(bytes + padding + start_of(kArrays), shm::page_bytes());
}

at::Tensor LastingMemory::array(std::size_t bucket, std::size_t index) const {
  const at::ScalarType dtype = shape_.buckets[bucket].dtype;
  const std::size_t room = room_bytes(bucket);
  const auto numel = static_cast<std::int64_t>((room - start_of(kArrays)) / c10::elementSize(dtype));
  return over(main_, offsets_[bucket] + index * room + start_of(index), numel, dtype);
}

at::Tensor LastingMemory::gradients(int place, std::size_t bucket) {
  std::shared_ptr<shm::Mapping>& slot = slots_[static_cast<std::size_t>(place)];
  if (!slot) {
    const std::size_t offset = slots_offset_ + slot_bytes_ * static_cast<std::size_t>(place);
    job_->grow(offset + slot_bytes_);
    slot = shm::Mapping::of_file(job_->file(), slot_bytes_, offset);
  }
  const at::ScalarType dtype = shape_.buckets[bucket].dtype;
  const std::size_t end = bucket + 1 < in_slot_.size() ? in_slot_[bucket + 1] : slot_bytes_;
  const auto numel = static_cast<std::int64_t>((end - in_slot_[bucket]) / c10::elementSize(dtype));
  return over(slot, in_slot_[bucket], numel, dtype);
}

std::int64_t* LastingMemory::steps(std::uint64_t number) const {
  auto* const first = reinterpret_cast<std::int64_t*>(main_->data() + steps_offset_);
  return first + (number % 2) * (shape_.parameters + 1);
}

at::Tensor LastingMemory::counts(std::uint64_t number) const {
  const auto offset = static_cast<std::size_t>(reinterpret_cast<std::byte*>(steps(number)) - main_->data());
  return over(main_, offset, static_cast<std::int64_t>(shape_.parameters) + 1, at::kLong);
}

double& LastingMemory::norm(std::uint64_t number) const {
  static_assert(sizeof(double) == sizeof(std::int64_t));
  return *reinterpret_cast<double*>(steps(number) + shape_.parameters);
}

void LastingMemory::reserve_part(const at::Tensor& memory, const MemoryHosts& hosts, Communicator& communicator) const {
  together(communicator, [&] {
    const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(memory.data_ptr()) - main_->data());
    const auto ranks = static_cast<std::size_t>(hosts.ranks_here());
    const auto first_of = [&](int place) { return memory.nbytes() * static_cast<std::size_t>(place) / ranks; };
    const std::size_t first = first_of(hosts.place());
    shm::reserve_pages(job_->file(), begin + first, first_of(hosts.place() + 1) - first);
  });
}

void LastingMemory::reserve_gradients(const MemoryHosts& hosts, Communicator& communicator) const {
  together(communicator, [&] {
    const auto place = static_cast<std::size_t>(hosts.place());
    if (header().slots.load() > place) return;
    job_->grow(slots_offset_ + slot_bytes_ * (place + 1));
    shm::reserve_pages(job_->file(), slots_offset_ + slot_bytes_ * place, slot_bytes_);
  });
  // All ranks have pages now, and look for none before the next group.
  const auto ranks = static_cast<std::uint64_t>(hosts.ranks_here());
  if (hosts.place() == 0 && header().slots.load() < ranks) header().slots.store(ranks);
}

void LastingMemory::reserve_journal(int place, Communicator& communicator) const {
  together(communicator, [&] {
    const std::size_t begin = journal_offset_ + block_bytes_ * static_cast<std::size_t>(place);
    shm::reserve_pages(job_->file(), begin, block_bytes_);
  });
}

}  // namespace lockstep
