// Compares `lockstep estimate-memory` with arithmetic, with itself, and with the memory of a real training.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

const std::string kEstimateBin = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";

nlohmann::json estimate(std::vector<std::string> words) {
  words.insert(words.begin(), {kEstimateBin, "estimate-memory"});
  words.emplace_back("--json");
  const ProgramEnd end = run_program(words, {}, std::chrono::seconds(240));
  EXPECT_EQ(end.code, 0) << end.err;
  return nlohmann::json::parse(end.out);
}

TEST(EstimateMemory, SharesOutWhatTheStageSays) {
  const auto out = estimate({"bert-tiny", "--world-size", "4", "--batch", "2", "--seq", "16"});
  const std::int64_t parameters = out.at("parameters");
  EXPECT_EQ(parameters, 4386178);  // Hugging Face's BertForSequenceClassification of these sizes, two labels
  const auto& rows = out.at("bytes_per_rank");
  ASSERT_EQ(rows.size(), 4U);
  const auto bytes = [&](std::size_t stage, const char* what) { return rows[stage].at(what).get<std::int64_t>(); };
  EXPECT_EQ(bytes(0, "weights"), 4 * parameters);
  EXPECT_EQ(bytes(0, "gradients"), 4 * parameters);
  EXPECT_EQ(bytes(0, "optimizer"), 8 * parameters);
  EXPECT_EQ(bytes(1, "gradients"), 4 * parameters);
  EXPECT_EQ(bytes(1, "optimizer"), 2 * parameters);
  EXPECT_EQ(bytes(2, "weights"), 4 * parameters);
  EXPECT_EQ(bytes(2, "gradients"), parameters);
  EXPECT_EQ(bytes(3, "weights"), parameters);
  for (std::size_t stage = 0; stage < 4; ++stage) EXPECT_EQ(bytes(stage, "activations"), bytes(0, "activations"));
  EXPECT_GT(bytes(0, "activations"), 0);
}

TEST(EstimateMemory, ActivationsGrowWithBatchAndShrinkWithCheckpointing) {
  const auto activations = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"bert-mini", "--seq", "64"};
    words.insert(words.end(), more.begin(), more.end());
    return estimate(words).at("bytes_per_rank")[0].at("activations").get<double>();
  };
  const double eight = activations({"--batch", "8"});
  EXPECT_NEAR(activations({"--batch", "16"}) / eight, 2, 0.1);
  EXPECT_LT(activations({"--batch", "8", "--gradient-checkpointing"}), 0.5 * eight);
}

TEST(EstimateMemory, TheFitOfSmallModelsSaysWhatADryRunSays) {
  const std::vector<std::string> words{"gpt3-small", "--batch", "2", "--seq", "64"};
  std::vector<std::string> fitted = words;
  fitted.emplace_back("--fit");
  const auto activations = [](const nlohmann::json& out) {
    return out.at("bytes_per_rank")[0].at("activations").get<double>();
  };
  const auto by_run = estimate(words);
  const auto by_fit = estimate(fitted);
  EXPECT_EQ(by_run.at("activations"), "measured");
  EXPECT_EQ(by_fit.at("activations"), "fitted");
  EXPECT_EQ(by_run.at("parameters"), by_fit.at("parameters"));
  EXPECT_NEAR(activations(by_fit) / activations(by_run), 1, 0.03);
}

TEST(EstimateMemory, ShowsOnATerminalWhatItIsDoing) {
  const std::string command = kEstimateBin + " estimate-memory bert-tiny --batch 1 --seq 8";
  const ProgramEnd end =
      run_program({"sh", "-c", "exec script -qec '" + command + "' /dev/null"}, {}, std::chrono::seconds(240));
  if (end.code == 127) GTEST_SKIP() << "no program script, which gives a program a terminal";
  EXPECT_EQ(end.code, 0) << end.out;
  const std::size_t run = end.out.find("dry run of bert-tiny, 2 samples");
  EXPECT_NE(run, std::string::npos) << end.out;
  EXPECT_LT(run, end.out.find("4.4 million parameters")) << end.out;
  const ProgramEnd piped = run_program({"sh", "-c", command}, {}, std::chrono::seconds(240));
  EXPECT_EQ(piped.err, "");
}

TEST(EstimateMemory, ListsTheModelsThatHaveNames) {
  const ProgramEnd help = run_program({kEstimateBin, "estimate-memory", "--help"});
  for (const char* line : {"  bert-base     BERT that classifies texts, 12 layers of 768, 109.5 M parameters\n",
                           "  gpt3-175b     GPT-3, 96 layers of 12288\n", "  mlp ", "Examples:\n"}) {
    EXPECT_NE(help.out.find(line), std::string::npos) << line << help.out;
  }
  // Other models, however near their names are to one that is known.
  for (const std::string name : {"roberta-base", "bert-large"}) {
    const ProgramEnd end = run_program({kEstimateBin, "estimate-memory", name});
    EXPECT_EQ(end.code, 2);
    EXPECT_EQ(end.err.find("did you mean"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("`lockstep model get " + name + "` downloads it"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("whose config.json is enough; or choose one of: mlp, "), std::string::npos) << end.err;
  }
}

TEST(EstimateMemory, SaysWhereItPutsTheRanks) {
  const std::vector<std::string> words{kEstimateBin, "estimate-memory", "bert-tiny",     "--batch",      "1", "--seq",
                                       "8",          "--dtypes",        "FP32,bfloat16", "--world-size", "4"};
  const ProgramEnd end = run_program(words);
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("No --nproc-per-node: all ranks are on one host."), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("float32  3 + weights"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("bf16     3 + weights"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("stage 3 is stage 2"), std::string::npos) << end.out;
  std::vector<std::string> on_hosts = words;
  on_hosts.insert(on_hosts.end(), {"--nproc-per-node", "2"});
  const ProgramEnd given = run_program(on_hosts);
  EXPECT_EQ(given.out.find("No --nproc-per-node"), std::string::npos) << given.out;
  EXPECT_EQ(given.out.find("stage 3 is stage 2"), std::string::npos) << given.out;
}

TEST(EstimateMemory, KnowsTheLargestGpt3) {
  const auto out = estimate({"gpt3-175b", "--world-size", "1024", "--stage", "3", "--batch", "1", "--seq", "128"});
  EXPECT_NEAR(out.at("parameters").get<double>(), 175e9, 1e9);
  EXPECT_EQ(out.at("activations"), "fitted");
}

TEST(EstimateMemory, IsWhatATrainingTakesMore) {
  // The difference between two models excludes the program's own memory.
  const auto resident_mib = [](const std::string& model) {
    const ProgramEnd end = run_program({kEstimateBin, "bench", "step", "--model", model, "--ranks", "1", "--batch", "8",
                                        "--seq", "64", "--rounds", "1", "--steps", "3", "--json"},
                                       {}, std::chrono::seconds(240));
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out)[0].at("rss_mib_per_rank").get<double>();
  };
  const auto estimated_mib = [](const std::string& model) {
    const auto out = estimate({model, "--batch", "8", "--seq", "64"});
    return out.at("bytes_per_rank")[0].at("total").get<double>() / (1 << 20);
  };
  const double measured = resident_mib("bert-small") - resident_mib("bert-tiny");
  const double estimated = estimated_mib("bert-small") - estimated_mib("bert-tiny");
  EXPECT_NEAR(estimated / measured, 1, 0.25) << estimated << " MiB estimated, " << measured << " MiB measured";
}

// Two ranks on each host. Their own and shared memory are measured, beyond what was there before the model.
class MemoryOfHosts : public ::testing::TestWithParam<std::tuple<int, int, const char*>> {};

TEST_P(MemoryOfHosts, IsWithinATenthOfWhatTheirRanksHold) {
  const auto [hosts, stage, dtype] = GetParam();
  const std::string ranks = std::to_string(2 * hosts);
  const std::vector<std::string> model{"bert-small", "--batch", "1", "--seq", "16"};
  std::vector<std::string> words = model;
  for (const std::string& word :
       {std::string("--world-size"), ranks, std::string("--nproc-per-node"), std::string("2"), std::string("--stage"),
        std::to_string(stage), std::string("--dtypes"), std::string(dtype)}) {
    words.push_back(word);
  }
  const double estimated = estimate(words).at("bytes_per_host")[0].at("total");
  std::vector<std::string> run{
      kEstimateBin, "run", "--nproc-per-node", ranks, std::string(LOCKSTEP_BIN_DIR) + "/memory_rank", "--model"};
  run.insert(run.end(), model.begin(), model.end());
  for (const std::string& word : {std::string("--hosts"), std::to_string(hosts), std::string("--stage"),
                                  std::to_string(stage), std::string("--bucket-mb"), std::string("2")}) {
    run.push_back(word);
  }
  if (dtype == std::string("bf16")) run.emplace_back("--bf16");
  const ProgramEnd end = run_program(run, {}, std::chrono::seconds(240));
  ASSERT_EQ(end.code, 0) << end.err;
  const auto measured = nlohmann::json::parse(end.out).at("host_bytes");
  ASSERT_EQ(measured.size(), static_cast<std::size_t>(hosts));
  for (const double bytes : measured) EXPECT_NEAR(bytes / estimated, 1, 0.1) << bytes << " " << estimated;
}

std::string stage_name(const ::testing::TestParamInfo<std::tuple<int, int, const char*>>& test) {
  return "hosts" + std::to_string(std::get<0>(test.param)) + "stage" + std::to_string(std::get<1>(test.param)) +
         std::get<2>(test.param);
}

INSTANTIATE_TEST_SUITE_P(Stages, MemoryOfHosts,
                         ::testing::Values(std::tuple(1, 2, "float32"), std::tuple(2, 3, "bf16")), stage_name);
INSTANTIATE_TEST_SUITE_P(StagesLong, MemoryOfHosts,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(0, 1, 2, 3),
                                            ::testing::Values("float32", "bf16")),
                         stage_name);

// A bert-tiny reads all but tables and LayerNorms in bf16.
TEST(EstimateMemory, CountsCopiesThatFusedStepsPublish) {
  const auto out = estimate({"bert-tiny", "--world-size", "4", "--nproc-per-node", "2", "--batch", "2", "--seq", "16",
                             "--dtypes", "float32,bf16"});
  const std::int64_t h = 128, layers = 2, tables = (30522 + 512 + 2) * h, norms = 2 * h * (1 + 2 * layers);
  const std::int64_t read_in_bf16 = out.at("parameters").get<std::int64_t>() - tables - norms;
  const auto bytes = [&](const char* whose, std::size_t row, const char* what) {
    return out.at(whose)[row].at(what).get<std::int64_t>();
  };
  for (const char* whose : {"bytes_per_rank", "bytes_per_host"}) {
    EXPECT_EQ(bytes(whose, 4, "weights"), bytes(whose, 0, "weights")) << "stage 0 casts";
    for (const std::size_t stage : {1, 2}) {
      EXPECT_EQ(bytes(whose, 4 + stage, "weights") - bytes(whose, stage, "weights"), 2 * read_in_bf16)
          << whose << stage;
      EXPECT_LT(bytes(whose, 4 + stage, "activations"), bytes(whose, 4, "activations")) << whose << stage;
    }
    EXPECT_LT(bytes(whose, 7, "buckets"), bytes(whose, 3, "buckets")) << "a layer takes half";
  }
}

TEST(EstimateMemory, RefusesWhatItDoesNotKnowAndWhatTheModelDoesNotHave) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {kEstimateBin, "estimate-memory"});
    const ProgramEnd end = run_program(words);
    EXPECT_TRUE(end.code == 1 || end.code == 2) << end.out << end.err;
    EXPECT_NE(end.err.find("fix: "), std::string::npos) << end.err;
    return end.err;
  };
  EXPECT_NE(refusal({"bert-gigantic"}).find("bert-gigantic"), std::string::npos);
  EXPECT_NE(refusal({"convnet", "--seq", "5"}).find("--seq"), std::string::npos);
  EXPECT_NE(refusal({"mlp", "--gradient-checkpointing"}).find("gradient_checkpointing"), std::string::npos);
  EXPECT_NE(refusal({"bert-tiny", "--fit"}).find("--fit"), std::string::npos);
  EXPECT_NE(refusal({"bert-tiny", "--world-size", "3", "--nproc-per-node", "2"}).find("--nproc-per-node 2"),
            std::string::npos);
  EXPECT_NE(refusal({"bert-tiny", "--seq", "600"}).find("512"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
