#include "lockstep/train/checks/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/parallel/agreement/data_agreement.h"
#include "lockstep/train/arguments/argument_changes.h"
#include "lockstep/train/checks/compared_arguments.h"
#include "lockstep/train/checks/model_settings.h"

namespace lockstep {
namespace {

constexpr const char* kModel = "model";  // the group of its settings

// Settings of the data that say what the samples are, not how they are prepared.
constexpr const char* kOfEvaluation = "eval_label_values";
constexpr const char* kOfSamples[] = {"classes", "classes_digest", "label_values", kOfEvaluation};
constexpr const char* kLengths = "lengths";  // a digest of TrainerOptions::lengths

bool says_what_samples_are(const std::string& argument) {
  return argument == kLengths || std::any_of(std::begin(kOfSamples), std::end(kOfSamples),
                                             [&](const char* const name) { return argument == name; });
}

template <std::size_t count>
nlohmann::json arguments_of(const TrainerContext& context, const char* const (&names)[count]) {
  const nlohmann::json all = to_json(context.args());
  nlohmann::json found = nlohmann::json::object();
  for (const char* const name : names) found[name] = all.value(name, nlohmann::json());
  return found;
}

nlohmann::json parsed_object(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

DataDigest digest_in(const std::string& text, std::size_t part) {
  const nlohmann::json digests = parsed_object(text).value("digests", nlohmann::json::array());
  const auto digest = part < digests.size() ? data_digest_of(digests[part]) : std::nullopt;
  return digest.value_or(DataDigest());
}

// The file of a part, in a text.
std::string source_in(const std::string& text, std::size_t part) { return digest_in(text, part).source; }

bool has_part(const std::string& text, std::size_t part) {
  const DataDigest digest = digest_in(text, part);
  return digest.samples >= 0 || !digest.source.empty();
}

template <typename Difference>
const Difference* find_of_tokenizer(const std::vector<Difference>& all) {
  const auto found = std::find_if(all.begin(), all.end(), [](const Difference& each) {
    return each.is_of_model && is_of_tokenizer(each.setting.name);
  });
  return found == all.end() ? nullptr : &*found;
}

std::string file_name_of(const std::string& file) { return file.empty() ? "the program's dataset" : file; }

}  // namespace

TrainingData::TrainingData(const TrainerContext& context) {
  const TrainerOptions& options = context.options;
  parts_ = {{"training data", options.train_dataset, digest_of(options.train_dataset.get(), options.train_file)},
            {"evaluation data", options.eval_dataset, digest_of(options.eval_dataset.get(), options.eval_file)}};
  finish(context);
}

TrainingData::TrainingData(const TrainerContext& context, std::shared_ptr<const Dataset> dataset, LookAt look) {
  if (context.world_size() == 1 && !context.elastic) return;
  const bool is_known = dataset == context.options.eval_dataset;
  DataDigest digest = digest_of(dataset.get(), is_known ? context.options.eval_file : "", look);
  parts_ = {{"evaluation data", std::move(dataset), std::move(digest)}};
  finish(context);
}

void TrainingData::finish(const TrainerContext& context) {
  nlohmann::json arguments = arguments_of(context, kSharedArguments);
  const std::vector<std::int64_t>& lengths = context.options.lengths;
  if (context.args().group_by_length) {
    arguments[kLengths] = hash_text(lengths.data(), lengths.size() * sizeof(lengths[0]));
  }
  nlohmann::json digests = nlohmann::json::array();
  for (const Part& part : parts_) digests.push_back(json_of(part.digest));
  const nlohmann::json all{{"arguments", arguments},
                           {"loop_arguments", arguments_of(context, kArgumentsOfLoop)},
                           {"start_arguments", arguments_of(context, kArgumentsOfStart)},
                           {"data_arguments", context.options.data_arguments},
                           {"digests", digests},
                           {kModel, context.options.model ? model_settings(*context.options.model) : nlohmann::json()}};
  text_ = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Arguments first, because other samples may follow from them; lengths last, because they follow from other samples.
std::vector<TrainingData::Difference> TrainingData::differences(const std::string& own, const std::string& other,
                                                                Compared what) const {
  std::vector<Difference> found;
  const nlohmann::json mine = parsed_object(own), theirs = parsed_object(other);
  std::optional<Difference> of_lengths;
  const auto in_group = [&](const nlohmann::json& all, const char* group) {
    return all.value(group, nlohmann::json());
  };
  const auto compare_settings = [&](const char* group) {
    for (SettingDifference& each : setting_differences(in_group(mine, group), in_group(theirs, group))) {
      if (what == Compared::Past && is_of_older_form(in_group(theirs, group), each.name)) continue;
      Difference difference;
      difference.part = each.name == kOfEvaluation ? parts_.size() - 1 : 0;
      difference.setting = std::move(each);
      if (difference.setting.name == kLengths) {
        of_lengths = std::move(difference);
      } else {
        found.push_back(std::move(difference));
      }
    }
  };
  compare_settings("arguments");
  if (what == Compared::Start) compare_settings("start_arguments");
  if (what != Compared::Past) compare_settings("loop_arguments");
  compare_settings("data_arguments");
  compare_samples(in_group(mine, "digests"), in_group(theirs, "digests"), found);
  if (of_lengths) found.push_back(*std::move(of_lengths));
  // After samples, which may follow from the tokenizer.
  const nlohmann::json my_model = in_group(mine, kModel), their_model = in_group(theirs, kModel);
  for (SettingDifference& each :
       what == Compared::Past ? model_changes(my_model, their_model) : setting_differences(my_model, their_model)) {
    Difference difference;
    difference.setting = std::move(each);
    difference.is_of_model = true;
    found.push_back(std::move(difference));
  }
  return found;
}

void TrainingData::compare_samples(const nlohmann::json& mine, const nlohmann::json& theirs,
                                   std::vector<Difference>& found) const {
  if (!mine.is_array() || !theirs.is_array()) return;
  for (std::size_t part = 0; part < std::min({mine.size(), theirs.size(), parts_.size()}); ++part) {
    const auto a = data_digest_of(mine[part]), b = data_digest_of(theirs[part]);
    const auto samples = a && b ? find_difference(*a, *b) : std::nullopt;
    if (!samples) continue;
    Difference difference;
    difference.part = part;
    difference.samples = *samples;
    found.push_back(std::move(difference));
  }
}

std::string TrainingData::describe(const Difference& found, const std::string& mine, const std::string& theirs) const {
  if (found.is_of_model) return setting_text(found.setting, mine, theirs);
  if (!found.are_samples()) return found.setting.text(mine, theirs);
  return parts_[found.part].what + ": " + found.samples.text(mine, theirs);
}

std::string TrainingData::file_of(const Difference& found) const {
  return file_name_of(parts_[found.part].digest.source);
}

void TrainingData::require_on_all(const std::shared_ptr<Communicator>& group) const {
  if (!group || group->world_size() == 1) return;
  const std::vector<std::string> texts = gather_texts(*group, text_);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    std::vector<Difference> all = differences(texts[rank], texts[0], Compared::Start);
    if (all.empty()) continue;
    Difference& found = all.front();
    const Part& part = parts_[found.part];
    narrow(*group, found.samples, part.dataset.get(), part.digest, static_cast<int>(rank), 0);
    const Membership& membership = group->membership();
    const auto place = [&](std::size_t of_rank) {
      const std::string host = membership.on_one_host() ? "" : " on " + membership.peers.at(of_rank).host;
      if (!has_part(texts[of_rank], found.part)) return fmt::format("rank {}{} has no {}", of_rank, host, part.what);
      return fmt::format("{} of rank {}{}", file_name_of(source_in(texts[of_rank], found.part)), of_rank, host);
    };
    const std::string what = describe(found, fmt::format("rank {}", rank), "rank 0");
    if (found.is_of_model) {
      refuse_data("the ranks do not have the same model; " + what, membership.where(),
                  "give all ranks the same model folder and tokenizer; if each host has a copy, copy one to all hosts");
    }
    if (!found.are_samples() && !says_what_samples_are(found.setting.name)) {
      refuse_data("the ranks do not have the same arguments; " + what, membership.where(),
                  "start all ranks with the same arguments and environment variables");
    }
    refuse_data(
        "the ranks have not read the same data; " + what, place(rank) + ", " + place(0),
        "give all ranks the same file, tokenizer and flags, the whole file to each: every rank takes a share of "
        "its own; if each host has a copy of the file, compare them (sha256sum), and copy one to all hosts");
  }
}

void TrainingData::require_as_ranks(const std::string& of_ranks) const {
  const std::vector<Difference> all = differences(text_, of_ranks, Compared::Ranks);
  if (all.empty()) return;
  const Difference& found = all.front();
  if (found.is_of_model) {
    refuse_data("this process cannot take a lost rank's place, because its model is not that of the others; " +
                    describe(found, "this process", "the others"),
                "the process that was to join",
                "give it the model folder and tokenizer that the job started with. The others continue");
  }
  refuse_data(
      "this process cannot take a lost rank's place, because it has not read the data that the others train on; " +
          describe(found, "this process", "the others"),
      file_of(found),
      "leave files as they are while a job trains: with the file that the job started with a process can join. The "
      "others continue without this one");
}

std::string TrainingData::change_since(const std::string& of_memory) const {
  const std::vector<Difference> all = differences(text_, of_memory, Compared::Past);
  if (all.empty()) return "";
  const Difference* const of_tokenizer = find_of_tokenizer(all);
  const Difference& found = of_tokenizer ? *of_tokenizer : all.front();
  const std::string text = describe(found, "this start", "the job's memory");
  const auto is_setting = [](const Difference& each) {
    return !each.are_samples() && !each.is_of_model && !says_what_samples_are(each.setting.name);
  };
  const std::string& file = parts_[found.part].digest.source;
  const bool is_same_file = !file.empty() && file == source_in(of_memory, found.part);
  // A model's settings may follow from other data, but its tokenizer does not.
  if (!is_same_file || found.is_of_model || std::any_of(all.begin(), all.end(), is_setting)) return text;
  refuse_data("the file has changed since the ranks that were lost read it; " + text, file,
              "put the file back as it was, and start the job again");
}

std::vector<std::string> TrainingData::require_as_saved(const std::string& saved, const std::string& path) const {
  const std::vector<Difference> all = differences(text_, saved, Compared::Past);
  const std::string me = "this run", them = "the checkpoint";
  std::vector<std::string> warnings;
  std::vector<SettingDifference> of_model;
  bool is_prepared_otherwise = false, has_other_evaluation = false;
  for (const Difference& found : all) {
    const std::string text = describe(found, me, them);
    if (found.is_of_model) {
      of_model.push_back(found.setting);
      continue;
    }
    if (!found.are_samples() && !says_what_samples_are(found.setting.name)) {
      const auto is_it = [&](const char* const name) { return found.setting.name == name; };
      if (std::none_of(std::begin(kSharedArguments), std::end(kSharedArguments), is_it)) is_prepared_otherwise = true;
      continue;
    }
    const bool is_lengths = !found.are_samples() && found.setting.name == kLengths;
    if (is_lengths || is_prepared_otherwise) continue;
    if (found.part > 0) {
      const bool is_in_both = found.are_samples() ? found.samples.samples >= 0 && found.samples.others >= 0
                                                  : !found.setting.mine.is_null() && !found.setting.theirs.is_null();
      if (is_in_both && !std::exchange(has_other_evaluation, true)) {
        warnings.push_back(text + ": metrics before the checkpoint are of other data than those from here on");
      }
      continue;
    }
    const Difference* const of_tokenizer = find_of_tokenizer(all);
    refuse_data("the checkpoint was trained on other data; " + text +
                    (of_tokenizer ? ". The tokenizer also differs: " + describe(*of_tokenizer, me, them) : ""),
                file_of(found) + ", " + path,
                std::string("resume with the data ") + (of_tokenizer ? "and the tokenizer " : "") +
                    "of the saved run, or start a new training from its weights: --model " + path);
  }
  const std::vector<std::string> about_model = warnings_of_model(of_model, path);
  warnings.insert(warnings.end(), about_model.begin(), about_model.end());
  return warnings;
}

}  // namespace lockstep
