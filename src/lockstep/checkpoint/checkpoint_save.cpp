#include "lockstep/checkpoint/checkpoint_save.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_parts.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/checkpoint/files/staged_file.h"
#include "lockstep/checkpoint/part_exchange.h"
#include "lockstep/net/long_work.h"

namespace lockstep {
namespace {

std::int64_t next_sequence(const OutputFolder& folder) {
  std::int64_t last = 0;
  for (const auto& entry : folder.entries(false)) {
    if (entry.manifest) last = std::max(last, entry.manifest->sequence);
  }
  return last + 1;
}

void add_parts(const std::vector<std::string>& texts, const CheckpointSave& save, Manifest& manifest) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Manifest part = parse_manifest(texts[i], fmt::format("the part of rank {}", i + 1));
    if (part.step != manifest.step) {
      throw Error(fmt::format("rank {} saves step {}, but rank 0 saves step {}", i + 1, part.step, manifest.step),
                  save.membership.where(), "let every rank save after the same update");
    }
    manifest.files.insert(part.files.begin(), part.files.end());
  }
}

// The others wait while this rank writes, however long its disk takes.
LongWork writing(const CheckpointSave& save, std::int64_t step) {
  return {save.membership, "writing " + save.names.of(step), WorkLog::Quiet};
}

// Rank 0: looks for all ranks' files.
void check_parts(const CheckpointSave& save, const std::string& staging, const Manifest& manifest) {
  try {
    check_files(staging, manifest, false);
  } catch (const Error& error) {
    throw Error(fmt::format("a rank has written its part, but rank 0 does not see it: {}", error.happened()),
                save.membership.where(), "give an output folder on a file system that all hosts share");
  }
}

// Runs `body`. If another rank's failure ended the group in which weights are joined, that rank's report says more.
template <typename Body>
auto with_reason(PartExchange& exchange, const CheckpointContent& content, const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {
    if (content.joins_weight_parts) exchange.throw_if_failed();
    throw;
  }
}

// Collective, in the group for it.
std::vector<JoinedWeights> joined_weights(const CheckpointSave& save, const CheckpointContent& content,
                                          PartExchange& exchange) {
  return with_reason(exchange, content, [&] {
    std::vector<JoinedWeights> joined;
    for (const TensorParts& parts : content.weight_parts) {
      if (content.joins_weight_parts) joined.emplace_back(*save.joining, parts, save.names.of(content.step));
    }
    return joined;
  });
}

// Rank 0: does everything that must be done once.
void lead(const CheckpointSave& save, const CheckpointContent& content, PartExchange& exchange) {
  OutputFolder folder(save.files, save.output_dir, save.names);
  folder.recover();
  const std::vector<JoinedWeights> joined = joined_weights(save, content, exchange);
  const std::vector<PartFile> parts = part_files(content, 0, save.membership.world_size, joined);
  Manifest manifest;
  manifest.step = content.step;
  manifest.world_size = save.membership.world_size;
  manifest.sequence = next_sequence(folder);
  const std::string staging = folder.stage(content.step, save.number);
  try {
    exchange.open(staging);
    {
      const LongWork work = writing(save, content.step);
      manifest.files = with_reason(exchange, content, [&] { return write_parts(save.files, staging, parts); });
    }
    add_parts(exchange.collect_parts(), save, manifest);
    const LongWork work = writing(save, content.step);
    check_parts(save, staging, manifest);
    const std::string text = manifest_json(manifest);
    StagedFile file(save.files, staging + "/" + kManifestFile, text.size());
    file.write(text);
    file.finish();
    if (save.files.sync_folder(staging) != 0) fail_to("sync folder", staging);
    folder.publish(staging, content.step);
  } catch (const std::exception& error) {
    exchange.fail(error.what());  // first, because ranks that still write there must learn why the folder disappears
    save.files.remove_tree(staging);
    throw;
  }
  exchange.end();
  const auto best = content.trainer_state ? content.trainer_state->best_global_step : std::nullopt;
  folder.rotate(save.save_total_limit, content.step, best);
  if (!save.last_keys.empty()) PartExchange::forget(save.membership, save.last_keys);
}

// @return  the part's manifest
std::string write_own_part(const CheckpointSave& save, const CheckpointContent& content,
                           const std::vector<PartFile>& parts, const std::string& staging) {
  const LongWork work = writing(save, content.step);
  if (!std::filesystem::is_directory(staging)) {
    throw Error(fmt::format("rank 0 writes its part to {}, which does not exist on this rank", staging),
                save.membership.where(), "give an output folder on a file system that all hosts share");
  }
  Manifest part;
  part.step = content.step;
  part.files = write_parts(save.files, staging, parts);
  if (save.files.sync_folder(staging) != 0) fail_to("sync folder", staging);
  return manifest_json(part);
}

void follow(const CheckpointSave& save, const CheckpointContent& content, PartExchange& exchange) {
  const std::vector<JoinedWeights> joined = joined_weights(save, content, exchange);
  const std::vector<PartFile> parts = part_files(content, save.membership.rank, save.membership.world_size, joined);
  const std::string staging = exchange.wait_until_open();
  try {
    for (const JoinedWeights& weights : joined) weights.send();
    exchange.give_part(write_own_part(save, content, parts, staging));
    exchange.wait_until_end();
  } catch (const std::exception&) {
    // Rank 0 has removed the folder, but perhaps not what this rank wrote meanwhile.
    if (exchange.has_rank_0_failed()) {
      save.files.remove_tree(staging);
      exchange.throw_if_failed();
    }
    throw;
  }
}

}  // namespace

std::string run_save(const CheckpointSave& save, const CheckpointContent& content) {
  PartExchange exchange(save.membership, save.keys, save.timeout);
  try {
    if (content.step < 0)
      throw Error("a checkpoint cannot have a negative step", "CheckpointWriter::save", "count from 0");
    save.membership.rank == 0 ? lead(save, content, exchange) : follow(save, content, exchange);
  } catch (const std::exception& error) {
    exchange.fail(error.what());
    if (content.joins_weight_parts && save.joining != nullptr) save.joining->abort("the checkpoint was not written");
    throw;
  }
  return OutputFolder(save.files, save.output_dir, save.names).final_path(content.step);
}

}  // namespace lockstep
