#include "lockstep/train/survival/session_memory.h"

#include <ATen/ops/full.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <typeinfo>

#include "lockstep/base/log.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/net/worlds/world_member.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/tensor_digest.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"
#include "lockstep/tensor/tensors_of.h"
#include "lockstep/train/loop/startup_advice.h"
#include "lockstep/train/survival/passed_on.h"

namespace lockstep {
namespace {

std::uint64_t digest_of(const std::vector<at::Tensor>& tensors) {
  std::uint64_t digest = tensors.size();
  for (const at::Tensor& each : tensors) mix_into(digest, tensor_digest(each));
  return digest;
}

std::string type_of(TrainableModel& model) {
  const auto module = model.module();
  if (!module) return typeid(model).name();
  const torch::nn::Module& of_model = *module;
  return typeid(of_model).name();
}

void copy_to_buffers(const std::vector<std::byte>& bytes, TrainableModel& model) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = tensors_of(model.tensors().buffers());
  const std::vector<at::Tensor> kept = tensors_of_bytes(bytes, buffers);
  for (std::size_t i = 0; i < kept.size(); ++i) buffers[i].copy_(kept[i]);
}

std::vector<LogEntry> entries_of(const std::string& log) {
  std::vector<LogEntry> entries;
  for (FieldReader fields(log, "a training's log"); !fields.is_at_end();) fields(entries.emplace_back());
  return entries;
}

struct KeptTotals {
  UpdateTotals totals;
  int stop_signal = 0;
};

template <typename Fields>
void list_fields(Fields& fields, KeptTotals& all) {
  UpdateTotals& totals = all.totals;
  fields(totals.loss, totals.count, totals.samples, totals.operations, all.stop_signal);
}

}  // namespace

SessionMemory::SessionMemory(SessionCore& core, UpdateRescue& rescue, std::shared_ptr<JobMemoryMap> job)
    : core_(core),
      context_(core.context),
      model_(*context_.options.model),
      parts_(core.parts),
      update_(core.update),
      state_(core.state),
      rescue_(rescue),
      job_memory_(std::move(job)),
      memory_(job_memory_, "", parts_.data.text()) {}

// Two trainings of one purpose do the same updates. Before weights are loaded from a checkpoint.
std::string SessionMemory::digest_of_training() const {
  nlohmann::json arguments = to_json(context_.args());
  for (const char* other : {"resume_from_checkpoint", "output_dir"}) arguments.erase(other);
  nlohmann::json tensors = nlohmann::json::array();
  const auto add = [&](const NamedTensor& each) {
    tensors.push_back({each.name, each.tensor.sizes().vec(), tensor_digest(each.tensor)});
  };
  for (const NamedTensor& each : model_.tensors().parameters) add(each);
  for (const NamedTensor& each : model_.tensors().buffers()) add(each);
  const nlohmann::json all{{"arguments", arguments},
                           {"data", context_.options.data_arguments},
                           {"count", parts_.plan.samples},
                           {"model", type_of(model_)},
                           {"tensors", tensors}};
  return purpose_digest(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Ranks of several hosts do not continue from their hosts' memories if all of them are lost: each host may have made
// another number of updates.
bool SessionMemory::keeps_places() const {
  if (context_.rank() != 0 || rescue_.state() == nullptr) return false;
  return rescue_.state()->hosts() == 1;
}

void SessionMemory::keep_place() {
  if (!keeps_places()) return;
  TrainingMemory::Place place;
  place.text = state_.passed_on(memory_.purpose(), /*has_history=*/false);
  place.position = context_.elastic->position();
  place.options = parts_.updater.optimizer().group_options();
  place.buffers = bytes_of(state_.buffers_before());
  if (!digest_of_untrained_) digest_of_untrained_ = digest_of(state_.untrained());
  place.untrained = *digest_of_untrained_;
  memory_.keep(place, log_bytes(), context_.state.global_step);
}

// The history only grows.
const std::string& SessionMemory::log_bytes() {
  const std::vector<LogEntry>& history = context_.state.log_history;
  for (; written_entries_ < history.size(); ++written_entries_) {
    LogEntry entry = history[written_entries_];
    log_(entry);
  }
  return log_.bytes();
}

void SessionMemory::keep_update(const UpdateTotals& totals) {
  if (!keeps_places()) return;
  KeptTotals kept{totals, update_.stop_signal()};
  FieldWriter fields;
  fields(kept);
  memory_.keep_update({fields.bytes(), bytes_of(state_.copies_of_buffers())});
}

bool SessionMemory::finds_place() {
  Communicator& group = *context_.elastic->group();
  // The ranks' weights may differ so far: then they get those of the first one.
  const bool decides = context_.rank() == 0 && job_memory_;
  memory_.set_purpose(broadcast_text(group, decides ? digest_of_training() : ""));
  // Before the purpose, which a file that has changed may change, too.
  const std::optional<std::string> data = memory_.kept_data();
  const std::string change = data ? parts_.data.change_since(*data) : "";
  std::string why_not;
  const bool has_place = memory_.has_place(why_not);
  if (has_place) why_not = change;
  const int hosts = MemoryHosts::of(group, job_memory_.get()).count();
  const std::string refusal = rescue_.refusal(group, {}, parts_.plan.has_slices);
  if (has_place && decides && memory_.place().untrained != digest_of(state_.untrained())) {
    why_not =
        "it does not have the weights that are not trained, and this model has others, as if a checkpoint had "
        "brought them";
  }
  const bool has_any = has_place || rescue_.has_memory();
  if (has_any && why_not.empty() && hosts > 1) why_not = "the ranks are on several hosts";
  if (has_place && !refusal.empty()) why_not = refusal;
  if (!why_not.empty() && context_.rank() == 0) {
    log_warning("the job's memory cannot be used: {}. The training begins at its checkpoint, or at step 0", why_not);
  }
  const bool can = has_place && why_not.empty() && context_.args().fuse;
  const at::Tensor all = at::full({1}, can ? 1 : 0, at::TensorOptions().dtype(at::kInt));
  if (group.world_size() > 1) group.all_reduce(all, ReduceOp::Min);
  return *all.data_ptr<int>() != 0;
}

void SessionMemory::continue_training() {
  const TrainingMemory::Place place = memory_.place();
  if (context_.group) broadcast_coalesced(*context_.group, state_.untrained(), 0);
  parts_.updater.optimizer().load_group_options(place.options);
  memory_.set_purpose(state_.take_over(place.text));
  context_.state.log_history = entries_of(place.log);
  context_.elastic->set_position(place.position);
  copy_to_buffers(place.buffers, model_);
  state_.return_to_place();
  rescue_.adopt(true, /*may_be_unfinished=*/true);
  const std::string fused = core_.engine.make(/*are_level=*/true);
  context_.print(startup_text(context_, parts_.plan, core_.choice, fused, core_.checkpoints.changes()));
  rescue_.adopt(true);
  core_.first.begin_as_after_checkpoint();
  if (memory_.updates() != place.updates) finish_update(place);
  if (context_.rank() != 0) return;
  log_warning("all ranks had ended; the training continues from the launcher's memory, after update {}{}",
              context_.state.global_step,
              TrainingCheckpoints::are_asked_for(context_.args()) ? ". Checkpoints are older, and not looked at" : "");
}

// The ranks that are gone had decided the update. The weights have seen it; the rest of the training has not.
void SessionMemory::finish_update(const TrainingMemory::Place& place) {
  const TrainingMemory::KeptUpdate record = memory_.kept_update(place);
  KeptTotals kept;
  FieldReader fields(record.text, "what an update adds to a training");
  fields(kept);
  fields.end();
  state_.note_place();
  state_.move_loaders(/*further=*/1);
  copy_to_buffers(record.buffers, model_);
  context_.notify(&TrainerCallback::on_step_begin);
  context_.notify(&TrainerCallback::on_pre_optimizer_step);
  if (!update_.stop_was_asked()) update_.set_stop_signal(kept.stop_signal);
  parts_.updater.note_step(rescue_.state()->norm());
  update_.end(kept.totals, true);
  state_.end_stage();
  context_.elastic->advance();
  state_.note_place();
}

// A process that has not got the training's state, as those that had it are lost, says nothing of the training.
void SessionMemory::note_failure(const std::exception_ptr& failure) {
  if (context_.elastic->position() < 0) return;
  try {
    require_lost_rank(failure);
  } catch (...) {
    memory_.withdraw();
  }
}

}  // namespace lockstep
