#include "lockstep/train/checks/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/parallel/agreement/data_agreement.h"
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

std::string shown(const nlohmann::json& value) {
  if (value.is_null()) return "not given";
  constexpr std::size_t kMost = 200;
  std::string text = value.is_number_float() ? fmt::format("{}", value.get<double>())
                                             : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// The first entry of two lists that differs.
std::size_t first_other(const nlohmann::json& a, const nlohmann::json& b) {
  std::size_t at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
  return at;
}

nlohmann::json entry(const nlohmann::json& list, std::size_t at) {
  return at < list.size() ? list[at] : nlohmann::json();
}

nlohmann::json parsed_object(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

// The file of a part, in a text.
std::string source_in(const std::string& text, std::size_t part) {
  const nlohmann::json digests = parsed_object(text).value("digests", nlohmann::json::array());
  const auto digest = part < digests.size() ? data_digest_of(digests[part]) : std::nullopt;
  return digest ? digest->source : "";
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
  if (context.world_size() == 1 && !context.survival) return;
  const bool is_known = dataset == context.options.eval_dataset;
  DataDigest digest = digest_of(dataset.get(), is_known ? context.options.eval_file : "", look);
  parts_ = {{"evaluation data", std::move(dataset), std::move(digest)}};
  finish(context);
}

void TrainingData::finish(const TrainerContext& context) {
  nlohmann::json arguments = arguments_of(context, kSharedArguments);
  const std::vector<std::int64_t>& lengths = context.options.lengths;
  if (context.args().group_by_length) {
    arguments[kLengths] = fmt::format("{:016x}", hash_bytes(lengths.data(), lengths.size() * sizeof(lengths[0])));
  }
  nlohmann::json digests = nlohmann::json::array();
  for (const Part& part : parts_) digests.push_back(json_of(part.digest));
  const nlohmann::json all{{"arguments", arguments},
                           {"loop_arguments", arguments_of(context, kArgumentsOfLoop)},
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
  const auto compare_settings = [&](const std::string& group) {
    const nlohmann::json none = nlohmann::json::object();
    const nlohmann::json a = mine.value(group, none), b = theirs.value(group, none);
    if (!a.is_object() || !b.is_object()) return;
    std::set<std::string> names;
    for (const nlohmann::json* const each : {&a, &b}) {
      for (const auto& [name, value] : each->items()) names.insert(name);
    }
    for (const std::string& name : names) {
      Difference difference;
      difference.argument = name;
      difference.is_of_model = group == kModel;
      difference.value = a.value(name, nlohmann::json());
      difference.others_value = b.value(name, nlohmann::json());
      if (difference.value == difference.others_value) continue;
      if (name == kLengths) {
        of_lengths = std::move(difference);
      } else {
        found.push_back(std::move(difference));
      }
    }
  };
  compare_settings("arguments");
  if (what == Compared::Ranks) compare_settings("loop_arguments");
  compare_settings("data_arguments");
  const nlohmann::json of_mine = mine.value("digests", nlohmann::json::array());
  const nlohmann::json of_theirs = theirs.value("digests", nlohmann::json::array());
  for (std::size_t part = 0; part < std::min({of_mine.size(), of_theirs.size(), parts_.size()}); ++part) {
    const auto a = data_digest_of(of_mine[part]), b = data_digest_of(of_theirs[part]);
    const auto samples = a && b ? find_difference(*a, *b) : std::nullopt;
    if (!samples) continue;
    Difference difference;
    difference.part = part;
    difference.samples = *samples;
    found.push_back(std::move(difference));
  }
  if (of_lengths) found.push_back(*std::move(of_lengths));
  if (what == Compared::Ranks) compare_settings(kModel);  // after samples, which may follow from its tokenizer
  return found;
}

std::string TrainingData::describe(const Difference& found, const std::string& mine, const std::string& theirs) const {
  if (found.argument.empty()) {
    return parts_[found.part].what + ": " + found.samples.text(mine, theirs);
  }
  const nlohmann::json &a = found.value, &b = found.others_value;
  if (!a.is_array() || !b.is_array()) {
    return fmt::format("{} is {} for {}, and {} for {}", found.argument, shown(a), mine, shown(b), theirs);
  }
  const std::size_t at = first_other(a, b);
  return fmt::format("{} has {} entries for {}, and {} for {}; number {}, counted from 0, is {}, and {}",
                     found.argument, a.size(), mine, b.size(), theirs, at, shown(entry(a, at)), shown(entry(b, at)));
}

std::string TrainingData::file_of(const Difference& found) const {
  return file_name_of(found.argument.empty() ? parts_[found.part].digest.source : parts_[0].digest.source);
}

void TrainingData::require_on_all(const std::shared_ptr<Communicator>& group) const {
  if (!group || group->world_size() == 1) return;
  const std::vector<std::string> texts = gather_texts(*group, text_);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    std::vector<Difference> all = differences(texts[rank], texts[0], Compared::Ranks);
    if (all.empty()) continue;
    Difference& found = all.front();
    const Part& part = parts_[found.part];
    narrow(*group, found.samples, part.dataset.get(), part.digest, static_cast<int>(rank), 0);
    const Membership& membership = group->membership();
    const auto place = [&](std::size_t of_rank) {
      const std::string host = membership.on_one_host() ? "" : " on " + membership.peers.at(of_rank).host;
      return fmt::format("{} of rank {}{}", file_name_of(source_in(texts[of_rank], found.part)), of_rank, host);
    };
    const std::string what = describe(found, fmt::format("rank {}", rank), "rank 0");
    const std::string where = place(rank) + ", " + place(0);
    if (found.is_of_model) {
      refuse_data("the ranks do not have the same model; " + what, membership.where(),
                  "give all ranks the same model folder and tokenizer; if each host has a copy, copy one to all hosts");
    }
    if (!found.argument.empty() && !says_what_samples_are(found.argument)) {
      refuse_data("the ranks do not have the same arguments; " + what, where,
                  "start all ranks with the same arguments");
    }
    refuse_data("the ranks have not read the same data; " + what, where,
                "give all ranks the same file, tokenizer and flags; if each host has a copy of the file, compare "
                "them (sha256sum), and copy one to all hosts");
  }
}

void TrainingData::require_as_ranks(const std::string& of_ranks) const {
  const std::vector<Difference> all = differences(text_, of_ranks, Compared::Ranks);
  if (all.empty()) return;
  const Difference& found = all.front();
  if (found.is_of_model) {
    refuse_data("this process cannot take a lost rank's place, because its model is not that of the others; " +
                    describe(found, "this process", "the others"),
                file_of(found), "give it the model folder and tokenizer of the job's start. The others continue");
  }
  refuse_data("this process cannot take a lost rank's place, because it has not read what the others train on; " +
                  describe(found, "this process", "the others"),
              file_of(found),
              "leave files as they are while a job trains: with the file of the job's start a process can join. "
              "The others continue without this one");
}

std::string TrainingData::change_since(const std::string& of_memory) const {
  const std::vector<Difference> all = differences(text_, of_memory, Compared::Past);
  if (all.empty()) return "";
  const Difference& found = all.front();
  const std::string text = describe(found, "this start", "the job's memory");
  const auto is_setting = [](const Difference& each) {
    return !each.argument.empty() && !says_what_samples_are(each.argument);
  };
  const std::string& file = parts_[found.part].digest.source;
  const bool is_same_file = !file.empty() && file == source_in(of_memory, found.part);
  if (!is_same_file || std::any_of(all.begin(), all.end(), is_setting)) return text;
  refuse_data("the file has changed since the ranks that were lost read it; " + text, file,
              "put the file back as it was, and start the job again");
}

std::string TrainingData::require_as_saved(const std::string& saved, const std::string& path) const {
  std::string warning;
  bool is_prepared_otherwise = false;
  for (const Difference& found : differences(text_, saved, Compared::Past)) {
    const std::string text = describe(found, "this run", "the checkpoint");
    const bool are_samples = found.argument.empty();
    if (!are_samples && !says_what_samples_are(found.argument)) {
      const auto is_it = [&](const char* const name) { return found.argument == name; };
      if (std::none_of(std::begin(kSharedArguments), std::end(kSharedArguments), is_it)) is_prepared_otherwise = true;
      continue;
    }
    if (found.argument == kLengths || found.argument == kOfEvaluation || is_prepared_otherwise) continue;
    if (are_samples && found.part > 0) {
      const bool is_in_both = found.samples.samples >= 0 && found.samples.others >= 0;
      if (is_in_both) warning = text + ": metrics before the checkpoint are of other data than those from here on";
      continue;
    }
    refuse_data("the checkpoint was trained on other data; " + text, file_of(found) + ", " + path,
                "resume with the data of the saved run, or start a new training from its weights: --model " + path);
  }
  return warning;
}

}  // namespace lockstep
