#include "lockstep/elastic/training_memory.h"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/elastic/fields.h"

namespace lockstep {
namespace {

constexpr const char* kTooLarge =
    "what this training needs to continue after the end of all ranks is too large for the job's memory";

constexpr const char* kWhat = "what a training keeps in the job's memory";

}  // namespace

std::string purpose_digest(const std::string& text) {
  std::uint64_t first = text.size(), second = ~first;
  for (const char each : text) {
    first = mix_bits(first + static_cast<std::uint8_t>(each) + 1);
    second = mix_bits(second ^ first);
  }
  return fmt::format("{:016x}{:016x}", first, second);
}

TrainingMemory::TrainingMemory(std::shared_ptr<JobMemoryMap> job, std::string purpose, std::string data)
    : job_(std::move(job)), purpose_(std::move(purpose)), data_(std::move(data)) {}

// The state of an earlier update would be no use: the weights have seen more.
void TrainingMemory::give_up(const std::string& why) {
  has_given_up_ = true;
  withdraw();
  log_warning("{}; if all ranks ended now, they would begin at a checkpoint", why);
}

void TrainingMemory::keep(const Place& place, const std::string& log, std::int64_t step) {
  if (!job_ || has_given_up_) return;
  FieldWriter fields;
  fields(purpose_, data_, place.position, place.options, place.untrained, place.text);
  try {
    if (!job_->begin_update(updates(), {fields.bytes(), place.buffers}, log)) return give_up(kTooLarge);
  } catch (const Error& error) {
    return give_up(error.happened());
  }
  job_->header().steps.store(static_cast<std::uint64_t>(step));
  job_->header().can_begin.store(1);
}

void TrainingMemory::keep_update(const KeptUpdate& update) {
  if (!job_ || has_given_up_) return;
  try {
    if (!job_->note_outcome(updates() + 1, {update.text, update.buffers})) give_up(kTooLarge);
  } catch (const Error& error) {
    give_up(error.happened());
  }
}

bool TrainingMemory::may_begin() const {
  if (!job_) return false;
  const MemoryHeader& header = job_->header();
  return header.layout.load() == JobMemoryHeader::kLayout && header.is_whole.load() != 0 &&
         header.can_begin.load() != 0;
}

std::optional<std::string> TrainingMemory::kept_data() const {
  std::uint64_t number = 0;
  const auto record = may_begin() ? job_->begun(number) : std::nullopt;
  if (!record) return std::nullopt;
  std::string purpose, data;
  FieldReader(record->text, kWhat)(purpose, data);
  return data;
}

bool TrainingMemory::has_place(std::string& why_not) const {
  if (!may_begin()) return false;
  std::uint64_t number = 0;
  const auto record = job_->begun(number);
  if (!record) return false;
  std::string purpose;
  FieldReader(record->text, kWhat)(purpose);
  if (purpose == purpose_) return true;
  why_not = "it is the state of a training with other arguments, data or weights";
  return false;
}

TrainingMemory::Place TrainingMemory::place() const {
  Place place;
  const auto record = job_->begun(place.updates);
  std::string purpose, data;
  FieldReader fields(record.value().text, kWhat);
  fields(purpose, data, place.position, place.options, place.untrained, place.text);
  fields.end();
  place.log = record->log;
  place.buffers = record->bytes;
  return place;
}

TrainingMemory::KeptUpdate TrainingMemory::kept_update(const Place& place) const {
  const auto record = job_->outcome(place.updates + 1);
  if (!record || updates() != place.updates + 1) {
    throw Error(fmt::format("the job's memory has weights after {} updates, and the place of a training after {}",
                            updates(), place.updates),
                "memory that outlives the ranks", "this is a fault of the library; resume from the last checkpoint");
  }
  return {record->text, record->bytes};
}

void TrainingMemory::withdraw() {
  if (job_) job_->header().can_begin.store(0);
}

std::vector<std::byte> bytes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor flat = tensor.contiguous();
    const auto* const first = static_cast<const std::byte*>(flat.data_ptr());
    bytes.insert(bytes.end(), first, first + flat.nbytes());
  }
  return bytes;
}

std::vector<at::Tensor> tensors_of_bytes(const std::vector<std::byte>& bytes, const std::vector<at::Tensor>& like) {
  std::vector<at::Tensor> tensors;
  std::size_t at = 0;
  for (const at::Tensor& each : like) {
    at::Tensor tensor = at::empty_like(each, at::MemoryFormat::Contiguous);
    if (tensor.nbytes() > bytes.size() - at) break;
    if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), bytes.data() + at, tensor.nbytes());
    at += tensor.nbytes();
    tensors.push_back(std::move(tensor));
  }
  if (tensors.size() == like.size() && at == bytes.size()) return tensors;
  throw Error("the job's memory has buffers of another model", "memory that outlives the ranks",
              "this is a fault of the library; resume from the last checkpoint");
}

}  // namespace lockstep
