"""Mistakes after which numbers are wrong and nothing says so. tests/mutants.py makes them; tests/silent_faults.py lists
what users met of them.
"""
from mutant_build import Look, one_object

SRC = "src/lockstep/"


def test(program, tests, objects=one_object, starts=None):
    return Look(program, ["--gtest_filter=" + tests, "--gtest_fail_fast"], objects, starts=starts)


WEIGHTS = SRC + "parallel/fused/weights/"
OF_WRITTEN_WEIGHTS = [
    ("a shared weight gets no memory of its own before it is written", WEIGHTS + "write_watch.cpp",
     "found->watcher->before_write(found->index);", "static_cast<void>(0);",
     test("parallel_test", "*SharedWrite.Operations*/thread")),
    ("views of a shared weight stay in its former memory", WEIGHTS + "write_watch.cpp",
     "  move_to(tensor, parameter.unsafeGetTensorImpl()->unsafe_storage(), tensor.key_set().remove(kWriteKey));\n", "",
     test("parallel_test", "*SharedWrite.Views*/thread")),
    ("a shared weight that was written once is no longer watched", WEIGHTS + "whole_weights.cpp",
     "  if (writes_) writes_->watch(parameter, bucket.parameters[place]);\n", "",
     test("parallel_test", "*SharedWrite.*/thread")),
    ("weights that each rank has written are not compared", SRC + "parallel/fused/written_weights.cpp",
     "changes[i] < kOwned;", "changes[i] <= kOwned;", test("parallel_test", "*SharedWrite.ValuesThatDiffer*/thread")),
]

OF_ROWS = [
    ("texts are cut on the right, whatever the tokenizer says", SRC + "data/text/tokenizer.cpp",
     "options.truncation->side = truncation_side();", "options.truncation->side = SequenceSide::Right;",
     test("data_text_test", "TokenizerSettings.Trunc*")),
    ("a delimiter that is given gives way to what the file's name says", SRC + "data/csv/csv_dialect.cpp",
     "if (given.delimiter == '\\0') given.delimiter", "given.delimiter", test("data_test", "CsvDialect.*")),
    ("a file has tabs if .tsv stands anywhere in its path", SRC + "data/csv/csv_dialect.cpp",
     'format_ending(path) == ".tsv"', 'path.find(".tsv") != std::string::npos', test("data_test", "CsvDialect.*")),
    ("rows that a lone quote joins are not counted among commas", SRC + "data/csv/joined_lines.cpp",
     "delimiter_ == '\\t' || may_be_records(", "delimiter_ == '\\t' && may_be_records(",
     test("data_test", "JoinedRows.*")),
    ("every text of several lines with the fields of rows counts as joined rows", SRC + "data/csv/joined_lines.cpp",
     "if (delimiter_ == '\\t') return true;", "if (delimiter_ != '\\0') return true;",
     test("data_test", "JoinedRows.*")),
    ("one joined row with a rare label hides all", SRC + "data/csv/joined_lines.cpp", "return std::any_of(join.labels",
     "return std::all_of(join.labels", test("data_test", "JoinedRows.*")),
]

OF_SETTINGS = [
    ("settings of the model are not compared with those of a checkpoint", SRC + "train/checks/model_settings.cpp",
     "  std::vector<SettingDifference> changes = setting_differences(now, before);\n",
     "  std::vector<SettingDifference> changes = setting_differences(now, now);\n",
     test("train_test", "*ModelChanges.*")),
    ("ranks may differ in what a checkpoint and a log hold", SRC + "train/checks/training_data.cpp",
     'if (what != Compared::Past) compare_settings("loop_arguments");', 'compare_settings("nothing");',
     test("train_test", "*OtherData.*")),
    ("ranks may start at different places", SRC + "train/checks/training_data.cpp",
     'if (what == Compared::Start) compare_settings("start_arguments");', 'compare_settings("nothing");',
     test("train_test", "*OtherData.*")),
    ("metrics of a model that was replaced stay beside the new one", SRC + "train/trainer.cpp",
     "if (!has_trained || !context.starts_over || place != context.args().output_dir) return;",
     "if (!place.empty()) return;", test("train_test", "EarlierResults.*")),
    ("metrics go although a training continues", SRC + "train/trainer.cpp",
     "if (!has_trained || !context.starts_over || place != context.args().output_dir) return;",
     "if (place != context.args().output_dir) return;", test("train_test", "EarlierResults.*")),
    ("a flag's second secret is shown", SRC + "base/text/hidden_secrets.cpp",
     "hides_values_ = !is_long_flag(word);", "hides_values_ = false;", test("base_test", "HiddenSecrets.*")),
]

OF_MODELS = [
    ("a 16-bit input of SyncBatchNorm is computed in its own type", SRC + "parallel/sync_batch_norm.cpp",
     "return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;", "return type;",
     test("parallel_test", "SyncBatchNorm.ComputesInputsOf16*")),
]

OF_BACKWARDS = [
    ("a gradient penalty's own backward is not begun", SRC + "parallel/reducer/reducer.cpp",
     "  if (watcher_ == nullptr) return;\n  hooks_.call_before(",
     "  if (watcher_ != nullptr) return;\n  hooks_.call_before(",
     test("parallel_test", "*SecondOrder.*")),
    ("a bucket that leaves takes another wrapper's gradients along", SRC + "parallel/backward/bucket_queue.cpp",
     "if (!is_elsewhere(i)) buckets_.take_off(i);", "buckets_.take_off(i);", test("parallel_test", "*SharedModules.*")),
    ("plain calls send no buffers", SRC + "parallel/reducer/reducer.cpp",
     "  if (plain_calls_.is_one() && !(backward_.context().join.is_on() && !follows_backward())) plain_calls_.end();\n", "",
     test("parallel_test", "PastTheWrapper.Buffers*")),
]

TERMS = SRC + "parallel/fused/agreement/update_terms.cpp"
OF_AGREEMENTS = [
    ("options of the optimizer's groups are not compared", TERMS,
     "  mix_options(number, optimizer_.group_options());\n", "",
     test("parallel_test", "*UpdateTermsOf.AnotherLearningRate*")),
    ("the place in the training is not compared", TERMS, "  mix_into(place, backwards());\n", "",
     test("parallel_test", "*UpdateTermsOf.AStepThatOneRankLeavesOut*")),
    ("a batch that one rank leaves out is not counted", TERMS,
     "agreement_.say(left_out_, static_cast<std::uint16_t>((zero_grads() & 0xff) << 8 | (forwards_.count() & 0xff)));",
     "agreement_.say(left_out_, static_cast<std::uint16_t>(0));",
     test("parallel_test", "*UpdateTerms.ABatchThatOneRankLeavesOut*")),
    ("the parameters of a list are not compared", TERMS,
     "mix_into(list_number_, found != index_of_.end() ? found->second : number_of(text_of(parameter)));",
     "mix_into(list_number_, found != index_of_.end() ? 0 : number_of(text_of(parameter)));",
     test("parallel_test", "*FusedLists.*")),
    ("a parameter of no wrapped module is not reported", TERMS,
     "if (stranger || !parameter.requires_grad() || WrappedModule::has(parameter)) continue;", "continue;",
     test("parallel_test", "*FusedLists.AParameterOfNoWrappedModule*")),
    ("parameters that one rank has frozen are not compared", TERMS, "  mix_into(number, frozen_.number());\n", "",
     test("parallel_test", "*FrozenOnOneRank.*")),
    ("samples may come in another order on one rank", SRC + "data/data_digest.cpp",
     "mix_into(digest.parts.back(), of_sample);", "digest.parts.back() += of_sample;",
     test("train_test", "*OtherData.*")),
    ("numbers of samples may differ between ranks", SRC + "data/data_digest.cpp",
     "if (own.samples != other.samples) return difference;", "if (own.samples != other.samples) return std::nullopt;",
     test("train_test", "*OtherData.*")),
    ("settings of the data are not compared", SRC + "parallel/agreement/data_agreement.cpp",
     "if (!settings.empty()) return Found{", "if (settings.size() > 1000) return Found{",
     test("train_test", "*OtherData.*:TrainingData.*")),
]

OF_LOGS = [
    ("a NaN is taken for the best metric", SRC + "train/loop/best_model.cpp", "  if (std::isnan(value)) {",
     "  if (std::isinf(value)) {", test("train_test", "LaterLogs.AMetricThatIsNan*")),
    ("rows of the log that a lost first rank has not written are left out", SRC + "train/folder/lost_logs.cpp",
     "    --first;\n", "    break;\n", test("train_test", "LostLogs.*")),
    ("rows of the log are written twice after the first rank was lost", SRC + "train/folder/lost_logs.cpp",
     "    if (std::any_of(rows.rbegin(), rows.rend(), is_it)) break;\n", "",
     test("train_test", "LostLogs.*")),
]

OF_WEIGHT_FILES = [
    ("tied weights that differ in the file are one in the model", SRC + "models/tied_weights.cpp",
     "if (!source || are_equal(files, *source, other)) continue;", "if (!source || files.contains(other)) continue;",
     test("models_test", "*TiedWeights*")),
    ("a head's two biases may differ without a word", SRC + "models/tied_weights.cpp",
     "if (source && !are_equal(files, *source, other)) lines +=", "if (!source) lines +=",
     test("commands_test", "InspectCommand.WarnsOfTiedTensors*")),
]

ALL = (OF_WRITTEN_WEIGHTS + OF_ROWS + OF_SETTINGS + OF_MODELS + OF_BACKWARDS + OF_AGREEMENTS + OF_LOGS
       + OF_WEIGHT_FILES)
