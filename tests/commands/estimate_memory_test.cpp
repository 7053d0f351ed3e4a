// Compares `lockstep estimate-memory` with arithmetic and with itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/commands/run_command.h"

namespace lockstep {
namespace {

nlohmann::json estimate(CommandWords words) {
  words.insert(words.begin(), "estimate-memory");
  words.emplace_back("--json");
  return nlohmann::json::parse(run_well(words));
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
  const auto activations = [](const CommandWords& more) {
    CommandWords words{"bert-mini", "--seq", "64"};
    words.insert(words.end(), more.begin(), more.end());
    return estimate(words).at("bytes_per_rank")[0].at("activations").get<double>();
  };
  const double eight = activations({"--batch", "8"});
  EXPECT_NEAR(activations({"--batch", "16"}) / eight, 2, 0.1);
  EXPECT_LT(activations({"--batch", "8", "--gradient-checkpointing"}), 0.5 * eight);
}

// Seconds, because the dry run is that of a model of 125 million parameters.
TEST(EstimateMemory, TheFitOfSmallModelsSaysWhatADryRunSays) {
  const CommandWords words{"gpt3-small", "--batch", "2", "--seq", "64"};
  CommandWords fitted = words;
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

TEST(EstimateMemory, ListsTheModelsThatHaveNames) {
  const ProgramEnd help = run_command({"estimate-memory", "--help"});
  for (const char* line : {"  bert-base     BERT that classifies texts, 12 layers of 768, 109.5 M parameters\n",
                           "  gpt3-175b     GPT-3, 96 layers of 12288\n", "  mlp ", "Examples:\n"}) {
    EXPECT_NE(help.out.find(line), std::string::npos) << line << help.out;
  }
  // Other models, however near their names are to one that is known.
  for (const std::string name : {"roberta-base", "bert-large"}) {
    const ProgramEnd end = run_command({"estimate-memory", name});
    EXPECT_EQ(end.code, 2);
    EXPECT_EQ(end.err.find("did you mean"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("`lockstep model get " + name + "` downloads it"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("whose config.json is enough; or choose one of: mlp, "), std::string::npos) << end.err;
  }
}

TEST(EstimateMemory, SaysWhereItPutsTheRanks) {
  const CommandWords words{"estimate-memory", "bert-tiny",     "--batch",      "1", "--seq", "8",
                           "--dtypes",        "FP32,bfloat16", "--world-size", "4"};
  const ProgramEnd end = run_command(words);
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("No --nproc-per-node: all ranks are on one host."), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("float32  3 + weights"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("bf16     3 + weights"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("stage 3 is stage 2"), std::string::npos) << end.out;
  CommandWords on_hosts = words;
  on_hosts.insert(on_hosts.end(), {"--nproc-per-node", "2"});
  const ProgramEnd given = run_command(on_hosts);
  EXPECT_EQ(given.out.find("No --nproc-per-node"), std::string::npos) << given.out;
  EXPECT_EQ(given.out.find("stage 3 is stage 2"), std::string::npos) << given.out;
}

// A host with 1024 ranks would need petabytes.
TEST(EstimateMemory, PutsTheRanksOfALargeJobOnManyHosts) {
  CommandWords words{"estimate-memory", "gpt3-175b", "--world-size", "1024", "--batch", "1",
                     "--seq",           "128",       "--stage",      "0"};
  const ProgramEnd end = run_command(words);
  EXPECT_NE(end.out.find("gpt3-175b: 174.6 billion parameters"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("on each of 128 host(s), its 8 rank(s) together"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("No --nproc-per-node: 8 rank(s) are on each of 128 hosts."), std::string::npos) << end.out;
  EXPECT_NE(end.out.find(" TiB"), std::string::npos) << end.out;
  std::istringstream lines(end.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("float32", 0) == 0) {
      EXPECT_EQ(line.size(), 95U) << line;  // no column bursts
    }
  }
  words[3] = "12";
  EXPECT_NE(run_command(words).out.find("on each of 2 host(s), its 6 rank(s) together"), std::string::npos);
}

TEST(EstimateMemory, KnowsTheLargestGpt3) {
  const auto out = estimate({"gpt3-175b", "--world-size", "1024", "--stage", "3", "--batch", "1", "--seq", "128"});
  EXPECT_NEAR(out.at("parameters").get<double>(), 175e9, 1e9);
  EXPECT_EQ(out.at("activations"), "fitted");
}

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
  const auto refusal = [](CommandWords words) {
    words.insert(words.begin(), "estimate-memory");
    const ProgramEnd end = run_command(words);
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
