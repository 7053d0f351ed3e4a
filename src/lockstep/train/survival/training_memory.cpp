#include "lockstep/train/survival/training_memory.h"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/mix_bits.h"
#include "lockstep/train/survival/exact_number.h"

namespace lockstep {
namespace {

constexpr const char* kTooLarge =
    "what this training needs to continue after the end of all ranks is too large for the job's memory";

nlohmann::json exact_json(const std::map<std::string, double>& values) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : values) json[name] = exact_number(value);
  return json;
}

std::map<std::string, double> exact_values(const nlohmann::json& json) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : json.items()) values[name] = number_of_exact(value);
  return values;
}

// A record's text: what the memory itself looks at, as a line of JSON; the place's text, a line; and a line for each
// entry of the history.
nlohmann::json first_line(const std::string& text) {
  return nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
}

}  // namespace

std::string purpose_digest(const std::string& text) {
  std::uint64_t first = text.size(), second = ~first;
  for (const char each : text) {
    first = mix_bits(first + static_cast<std::uint8_t>(each) + 1);
    second = mix_bits(second ^ first);
  }
  return fmt::format("{:016x}{:016x}", first, second);
}

TrainingMemory::TrainingMemory(std::shared_ptr<JobMemoryMap> job, std::string purpose)
    : job_(std::move(job)), purpose_(std::move(purpose)) {}

// The state of an earlier update would be no use: the weights have seen more.
void TrainingMemory::give_up(const std::string& why) {
  has_given_up_ = true;
  withdraw();
  log_warning("{}; if all ranks ended now, they would begin at a checkpoint", why);
}

void TrainingMemory::keep(const Place& place, const std::vector<LogEntry>& history, std::int64_t step) {
  if (!job_ || has_given_up_) return;
  for (; written_entries_ < history.size(); ++written_entries_) {
    const LogEntry& entry = history[written_entries_];
    history_text_ += '\n' + nlohmann::json{{"step", entry.step}, {"values", exact_json(entry.values)}}.dump();
  }
  nlohmann::json options = nlohmann::json::array();
  for (const auto& group : place.options) options.push_back(exact_json(group));
  const nlohmann::json json{
      {"purpose", purpose_}, {"position", place.position}, {"options", options}, {"untrained", place.untrained}};
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  try {
    if (!job_->begin_update(updates(), {line + '\n' + place.text + history_text_, place.buffers}))
      return give_up(kTooLarge);
  } catch (const Error& error) {
    return give_up(error.happened());
  }
  job_->header().steps.store(static_cast<std::uint64_t>(step));
  job_->header().can_begin.store(1);
}

void TrainingMemory::keep_outcome(const Outcome& outcome) {
  if (!job_ || has_given_up_) return;
  const UpdateTotals& totals = outcome.totals;
  const nlohmann::json json{{"loss", exact_number(totals.loss)},
                            {"count", totals.count},
                            {"samples", totals.samples},
                            {"operations", exact_number(totals.operations)},
                            {"stop_signal", outcome.stop_signal}};
  try {
    if (!job_->note_outcome(updates() + 1, {json.dump(), outcome.buffers})) give_up(kTooLarge);
  } catch (const Error& error) {
    give_up(error.happened());
  }
}

bool TrainingMemory::has_place(std::string& why_not) const {
  if (!job_) return false;
  const MemoryHeader& header = job_->header();
  if (header.layout.load() != JobMemoryHeader::kLayout || header.is_whole.load() == 0 || header.can_begin.load() == 0) {
    return false;
  }
  std::uint64_t number = 0;
  const auto record = job_->begun(number);
  if (!record) return false;
  const nlohmann::json json = first_line(record->text);
  if (json.is_object() && json.value("purpose", "") == purpose_) return true;
  why_not = "it is the state of a training with other arguments, data or weights";
  return false;
}

TrainingMemory::Place TrainingMemory::place() const {
  Place place;
  const auto record = job_->begun(place.updates);
  const std::string& text = record.value().text;
  const nlohmann::json json = first_line(text);
  place.position = json.at("position");
  place.untrained = json.at("untrained");
  for (const nlohmann::json& group : json.at("options")) place.options.push_back(exact_values(group));
  const std::size_t second = text.find('\n') + 1;
  std::size_t end = text.find('\n', second);
  place.text = text.substr(second, end - second);
  while (end != std::string::npos) {
    const std::size_t begin = end + 1;
    end = text.find('\n', begin);
    const nlohmann::json entry = nlohmann::json::parse(text.substr(begin, end - begin));
    place.history.push_back({entry.at("step"), exact_values(entry.at("values"))});
  }
  place.buffers = record->bytes;
  return place;
}

TrainingMemory::Outcome TrainingMemory::outcome(const Place& place) const {
  const auto record = job_->outcome(place.updates + 1);
  if (!record || updates() != place.updates + 1) {
    throw Error(fmt::format("the job's memory has weights after {} updates, and the place of a training after {}",
                            updates(), place.updates),
                "memory that outlives the ranks", "this is a fault of the library; resume from the last checkpoint");
  }
  const nlohmann::json json = nlohmann::json::parse(record->text);
  Outcome outcome;
  outcome.totals.loss = number_of_exact(json.at("loss"));
  outcome.totals.count = json.at("count");
  outcome.totals.samples = json.at("samples");
  outcome.totals.operations = number_of_exact(json.at("operations"));
  outcome.stop_signal = json.at("stop_signal");
  outcome.buffers = record->bytes;
  return outcome;
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
