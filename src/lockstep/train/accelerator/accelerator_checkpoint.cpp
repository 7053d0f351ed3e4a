// Accelerator: saves its state, and continues from it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/joined_weights.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/train/accelerator.h"
#include "lockstep/train/accelerator/accelerator_state.h"

namespace lockstep {
namespace {

constexpr const char* kCheckpointsFolder = "checkpoints";

struct CheckpointPlace {
  std::string folder;  // the folder that contains it
  CheckpointNames names;
};

CheckpointPlace place_of(const ProjectConfiguration& project, const std::string& folder, const char* call) {
  if (!folder.empty()) {
    std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    const std::string around = path.parent_path().string();
    return {around.empty() ? "." : around, CheckpointNames::single(path.filename().string())};
  }
  if (!project.automatic_checkpoint_naming || project.project_dir.empty()) {
    throw Error(fmt::format("{} needs a folder", call), "Accelerator",
                "give one, or set project_config.project_dir and automatic_checkpoint_naming");
  }
  return {project.project_dir + "/" + kCheckpointsFolder, CheckpointNames::numbered("checkpoint_")};
}

Checkpoint checkpoint_at(const CheckpointPlace& place, Communicator& group) {
  CheckpointSearch search = find_newest_checkpoint(place.folder, group, place.names);
  const bool is_one = !place.names.is_numbered();
  if (search.newest && group.rank() == 0 && !search.damaged.empty()) log_warning("{}", search.notice());
  if (search.newest) return std::move(*search.newest);
  const std::string path = place.folder + (is_one ? "/" + place.names.of(0) : "");
  const std::string damage = broadcast_text(group, search.damaged.empty() ? "" : search.damaged.front().reason);
  if (is_one && !damage.empty()) throw Error(damage, path, "load another folder that save_state wrote");
  throw Error(fmt::format("there is no {}checkpoint in {}", damage.empty() ? "" : "whole ", path), path,
              damage.empty() ? "give a folder that save_state wrote" : "the newest one: " + damage);
}

[[noreturn]] void refuse_hooked_weights() {
  throw Error("a hook of save_state gave weights, but each rank saves only its part of the models' weights",
              "Accelerator",
              "write them to StateToSave::files; or, if no model's weights are in shards (stage 3), save with "
              "StateDictType::Full");
}

void warn_of_positions_that_are_not_kept(const ActiveLoaders& loaders) {
  const std::vector<const LoaderPosition*>& reading = loaders.reading;
  if (std::all_of(reading.begin(), reading.end(), [](const LoaderPosition* each) { return each->is_kept; })) return;
  log_warning(
      "save_state: the position in a loader of torch::data is not kept; save between epochs, or count its batches and "
      "call skip_first_batches after load_state");
}

}  // namespace

void Accelerator::save_weights(const ModuleTensors& tensors, DistributedDataParallelBase& model,
                               const std::string& folder, std::uint64_t max_shard_bytes) {
  const TensorParts shards = model.fused_step().weight_parts();
  if (!shards.empty()) {
    return write_joined_weight_files(process_group(), folder, tensors_to_save(tensors),
                                     parts_to_save(tensors, shards, process_index(), num_processes()), max_shard_bytes);
  }
  run_together(process_group(), "saving the model in " + folder, [&] {
    if (is_main_process()) write_weight_files(folder, tensors_to_save(tensors), max_shard_bytes);
  });
}

std::string Accelerator::save_state(const std::string& output_dir, SaveStateOptions how) {
  ProjectConfiguration& project = options_.project_config;
  CheckpointPlace place = place_of(project, output_dir, "save_state");
  const std::string key = place.folder + "/" + place.names.of(0) + (how.background ? " in the background" : "");
  if (!writer_ || writer_key_ != key) {
    if (writer_) writer_->wait();
    CheckpointWriterOptions options;
    options.output_dir = place.folder;
    options.save_total_limit = place.names.is_numbered() ? project.total_limit : 0;
    options.names = place.names;
    options.background = how.background;
    writer_.reset();
    writer_ = std::make_unique<CheckpointWriter>(options, group());
    writer_key_ = key;
  }
  if (is_main_process()) warn_of_positions_that_are_not_kept(*loaders_);
  const StateDictType of_plugin = options_.fsdp_plugin ? options_.fsdp_plugin->state_dict_type : StateDictType::Full;
  const bool is_sharded = how.state_dict_type.value_or(of_plugin) == StateDictType::Sharded;
  const bool in_parts = is_sharded || kept_->has_shards();
  CheckpointContent content;
  run_together(process_group(), "gathering what save_state writes", [&] {
    content = kept_->content(project.iteration, is_main_process());
    std::vector<NamedTensors> weights;
    if (in_parts) {
      using Differing = AcceleratorState::Differing;
      content.weight_parts =
          kept_->weight_parts(process_index(), num_processes(), is_sharded ? Differing::Refused : Differing::OfRank0);
      content.joins_weight_parts = !is_sharded;
    } else if (is_main_process()) {
      weights = kept_->weights();
    }
    StateToSave state{weights, content.files};
    save_hooks_->call(state);
    if (in_parts && !weights.empty()) refuse_hooked_weights();
    if (!weights.empty()) {
      content.weights = std::move(weights.front());
      content.further_weights.assign(std::make_move_iterator(weights.begin() + 1),
                                     std::make_move_iterator(weights.end()));
    }
  });
  std::string saved = writer_->save(content);
  if (output_dir.empty()) ++project.iteration;
  return saved;
}

void Accelerator::load_state(const std::string& input_dir, LoadStateOptions options) {
  if (writer_) writer_->wait();
  const Checkpoint checkpoint =
      checkpoint_at(place_of(options_.project_config, input_dir, "load_state"), process_group());
  std::vector<NamedTensors> weights;
  run_together(process_group(), "taking up " + checkpoint.path(), [&] {
    require_generators(checkpoint);
    const ResumeState own = resume_state(checkpoint, process_index(), num_processes(), options.allow_world_size_change);
    weights = kept_->weights();
    StateToLoad state{checkpoint.path(), weights};
    load_hooks_->call(state);
    kept_->load(checkpoint, own, weights);
    if (own.is_remapped && is_main_process()) log_warning("{}", own.notice);
  });
  kept_->check_shards(checkpoint, weights, process_group());
  if (input_dir.empty()) options_.project_config.iteration = checkpoint.step() + 1;
}

}  // namespace lockstep
