#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/seeing/chart/line_chart.h"
#include "lockstep/seeing/html_report.h"
#include "lockstep/seeing/metrics_log.h"
#include "lockstep/seeing/report_data.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Points = ReportData::Points;

void write_run(const std::string& folder) {
  MetricsLog log(folder + "/metrics.jsonl");
  log.write(
      "start", 0,
      {{"max_steps", 200}, {"world_size", 2}, {"arguments", {{"learning_rate", 5e-5}, {"output_dir", "a<b>&c"}}}});
  for (int step = 10; step <= 200; step += 10) {
    log.write("log", step,
              {{"loss", 2 * std::exp(-step / 80.0)}, {"learning_rate", 5e-5 * (1 - step / 200.0)}, {"grad_norm", 1.5}});
    log.write("phases", step,
              {{"data_s", 0.1},
               {"compute_s", 3.0},
               {"optimizer_s", 0.4},
               {"samples_per_second", 100.0 + step},
               {"steps_per_second", 2.0},
               {"resident_bytes", 400'000'000 + step},
               {"peak_resident_bytes", 500'000'000}});
    if (step % 50 == 0) log.write("log", step, {{"eval_loss", 1.5 - step / 200.0}, {"eval_accuracy", step / 250.0}});
  }
  log.write("end", 200, nlohmann::json::object());
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportData, ComesFromTheMetricsLog) {
  const TemporaryFolder folder;
  write_run(folder.path());
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.logs.at("loss").size(), 20u);
  EXPECT_EQ(data.logs.at("eval_accuracy").back(), std::make_pair(200.0, 0.8));
  EXPECT_EQ(data.rates.at("samples_per_second").front(), std::make_pair(10.0, 110.0));
  EXPECT_EQ(data.memory.at("resident_bytes").size(), 20u);
  ASSERT_EQ(data.phases.size(), 3u);
  EXPECT_EQ(data.phases[0].first, "compute");
  EXPECT_DOUBLE_EQ(data.phases[0].second, 60);
  EXPECT_TRUE(data.warnings.empty());
  EXPECT_EQ(data.arguments.size(), 2u);
}

TEST(ReportData, LeavesOutWhatARunDidThatWentBack) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl");
    log.write("start", 0, nlohmann::json::object());
    for (const int step : {1, 2, 3, 4}) {
      log.write("log", step, {{"loss", 10.0 * step}});
      log.write("phases", step, {{"compute_s", 1.0}});
    }
    log.write("start", 2, nlohmann::json::object());
    log.write("log", 3, {{"loss", 7.0}});
    log.write("phases", 3, {{"compute_s", 5.0}});
  }
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.logs.at("loss"), (Points{{1, 10}, {2, 20}, {3, 7}}));
  EXPECT_EQ(data.phases, (std::vector<std::pair<std::string, double>>{{"compute", 7}}));
}

TEST(ReportData, IsOfTheLastTrainingAndOfTheTimeInWhichItRan) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"kind":"start","step":0,"time":100}
{"kind":"log","step":0,"time":101,"eval_loss":9}
{"kind":"log","step":4,"time":140,"loss":"NaN"}
{"kind":"end","step":4,"time":150}
{"kind":"start","step":0,"time":1000,"max_steps":6}
{"kind":"log","step":3,"time":1007,"loss":5}
{"kind":"start","step":3,"time":2000,"max_steps":6}
{"kind":"log","step":6,"time":2005,"loss":4}
{"kind":"end","step":6,"time":2006}
{"kind":"log","step":6,"time":3000,"eval_loss":2}
)";
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.logs.at("loss"), (Points{{3, 5}, {6, 4}}));
  EXPECT_EQ(data.logs.at("eval_loss"), (Points{{6, 2}}));
  EXPECT_TRUE(data.warnings.empty());
  const std::map<std::string, std::string> facts(data.facts.begin(), data.facts.end());
  EXPECT_EQ(facts.at("took"), "00:13");
  EXPECT_EQ(facts.at("resumed from a checkpoint"), "once");
}

// The training's first rank was killed, and a process that has no group yet took its place.
TEST(ReportData, CountsASuccessorOfTheFirstRankAsNoOtherTraining) {
  const TemporaryFolder folder;
  const std::string about = R"("about":{"model":"M","changed_arguments":{"survive_lost_ranks":true})";
  std::ofstream(folder / "metrics.jsonl")
      << R"({"kind":"start","step":0,"time":100,"world_size":2,)" << about << R"(,"engine":"shm","hosts":1}})"
      << R"(
{"kind":"log","step":3,"time":107,"loss":5}
{"kind":"start","step":3,"time":109,"world_size":1,)"
      << about << R"(}}
{"kind":"log","step":6,"time":115,"loss":4}
{"kind":"end","step":6,"time":116}
)";
  const ReportData data = read_report_data(folder.path());
  const std::map<std::string, std::string> facts(data.facts.begin(), data.facts.end());
  EXPECT_EQ(facts.at("took"), "00:16");
  EXPECT_EQ(facts.at("ranks"), "2");
  EXPECT_EQ(facts.at("first rank lost and replaced"), "once");
  EXPECT_EQ(facts.count("resumed from a checkpoint"), 0U);
  const std::map<std::string, std::string> rows(data.about.begin(), data.about.end());
  EXPECT_EQ(rows.at("ranks"), "2, on 1 host, engine shm");
}

TEST(ReportData, TellsOfLossesThatAreNoNumbersAndLinesThatCannotBeRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << "{\"kind\":\"start\",\"step\":0,\"time\":1}\n"
                                          << "{\"kind\":\"log\",\"step\":1,\"time\":2,\"loss\":\"NaN\"}\n"
                                          << "[]\n{\"kind\":3,\"step\":1,\"time\":1}\n{\"kind\":\"lo";
  const ReportData data = read_report_data(folder.path());
  ASSERT_EQ(data.warnings.size(), 2u);
  EXPECT_EQ(data.warnings[0], "loss is NaN at step 1");
  EXPECT_NE(data.warnings[1].find("passed over 3 lines of "), std::string::npos) << data.warnings[1];
  EXPECT_NE(data.warnings[1].find(": lines 3, 4, 5;"), std::string::npos) << data.warnings[1];
  EXPECT_NE(html_report(data).find("loss is NaN at step 1"), std::string::npos);
}

TEST(ReportData, ComesFromTheLastCheckpointOfHuggingFaceToo) {
  const TemporaryFolder folder;
  for (const char* step : {"9", "16"}) {
    std::filesystem::create_directories(folder / (std::string("checkpoint-") + step));
    std::ofstream(folder / (std::string("checkpoint-") + step + "/trainer_state.json"))
        << R"({"global_step":)" << step << R"(,"max_steps":64,"log_history":[{"loss":1.5,"step":)" << step << "}]}";
  }
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.logs.at("loss"), (Points{{16, 1.5}}));
  ASSERT_EQ(data.checkpoints.size(), 2u);
  EXPECT_EQ(data.checkpoints[1].first, 16);
  EXPECT_NE(data.checkpoints[1].second.find("damaged"), std::string::npos);
  std::ofstream(folder / "checkpoint-16/training_args.bin") << "a pickle";
  const std::string whole = read_report_data(folder.path()).checkpoints[1].second;
  EXPECT_NE(whole.find(", of Hugging Face's Trainer"), std::string::npos) << whole;
}

TEST(ReportData, PassesOverATornStateForThatOfTheLastCheckpoint) {
  const TemporaryFolder folder;
  std::ofstream(folder / "trainer_state.json") << R"({"global_step": 16, "log_his)";
  EXPECT_THROW(read_report_data(folder.path()), Error);
  std::filesystem::create_directories(folder / "checkpoint-9");
  std::ofstream(folder / "checkpoint-9/trainer_state.json")
      << R"({"global_step":9,"max_steps":64,"log_history":[{"loss":1.5,"step":9}]})";
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.logs.at("loss"), (Points{{9, 1.5}}));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_NE(data.warnings[0].find("passed over " + (folder / "trainer_state.json")), std::string::npos)
      << data.warnings[0];
}

// These pipes have no writer, and the log of 3 GiB is a single line of zeros.
TEST(ReportData, ComesFromFilesOfABoundedSize) {
  for (const char* name : {"metrics.jsonl", "trainer_state.json"}) {
    const TemporaryFolder folder;
    ASSERT_EQ(::mkfifo(std::string(folder / name).c_str(), 0600), 0);
    EXPECT_THROW(read_report_data(folder.path()), Error) << name;
    std::filesystem::remove(folder / name);
    std::ofstream(folder / name).close();
    std::filesystem::resize_file(folder / name, std::uintmax_t{3} << 30);
    try {
      read_report_data(folder.path());
      ADD_FAILURE() << name << " was read";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find(name), std::string::npos) << error.what();
      EXPECT_NE(error.happened().find("are allowed"), std::string::npos) << error.what();
    }
  }
}

TEST(ReportData, SaysWhatItNeeds) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_report_data(folder.path()), Error);
  EXPECT_THROW(read_report_data(folder / "nothing"), Error);
}

TEST(LineChart, ThinsOutLongSeriesAndKeepsTheirPeaks) {
  ChartLine series{"loss", {}};
  for (int i = 0; i < 100'000; ++i) series.points.emplace_back(i, i == 54'321 ? 1000 : 1);
  const std::string svg = line_chart_svg("t", {series}, "");
  EXPECT_LT(svg.size(), 40'000u);
  EXPECT_NE(svg.find(" 30.0L"), std::string::npos) << "the peak touches the top of the chart";
}

TEST(LineChart, DrawsWhatHasNoExtent) {
  EXPECT_EQ(count_of(line_chart_svg("t", {{"a", {{5, 2}}}}, ""), "<circle"), 1u);
  EXPECT_EQ(count_of(line_chart_svg("t", {{"a", {{5, 0}, {6, 0}}}}, ""), "<circle"), 2u);
  EXPECT_EQ(count_of(line_chart_svg("t", {{"a", {{1, 1}, {2, std::nan("")}, {3, 1}}}}, ""), "M"), 2u) << "broken there";
  EXPECT_EQ(count_of(line_chart_svg("t", {{"a", {{1, std::nan("")}}}}, ""), "nan"), 0u);
}

// Charts side by side have one scale, from the beginning to the last step, and no number is cut off at the right.
TEST(HtmlReport, NamesTheStepsOfAllChartsAlike) {
  ReportData data;
  data.folder = "f";
  data.logs["loss"] = {{100, 3}, {1000, 1}};
  data.logs["eval_accuracy"] = {{500, 0.5}};
  const std::string html = html_report(data);
  EXPECT_EQ(count_of(html, ">step</text>"), 2U) << html;
  for (const char* tick : {">0</text>", ">200</text>", ">1000</text>"}) EXPECT_EQ(count_of(html, tick), 2U) << tick;
  EXPECT_EQ(count_of(html, R"(x="536.0" y="240" text-anchor="middle">1000</text>)"), 2U) << html;
}

TEST(HtmlReport, NeedsNothingElseAndEscapesWhatItShows) {
  const TemporaryFolder folder;
  write_run(folder.path());
  const std::string html = html_report(read_report_data(folder.path()));
  for (const char* outside : {"http://", "https://", "src=", "@import", "url(", "<script"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("a&lt;b&gt;&amp;c"), std::string::npos);
  EXPECT_EQ(html.find("a<b>"), std::string::npos);
  EXPECT_EQ(count_of(html, "<svg"), count_of(html, "</svg>"));
  // loss, learning rate, gradient norm, accuracy, two rates, memory, phases
  EXPECT_EQ(count_of(html, "<svg"), 8u);
}

std::string find_browser() {
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

// A browser draws the page; the test queries the layout of its engine, and takes a picture. The browser starts twice,
// which takes longer than all other tests of this folder.
TEST(HtmlReportLong, IsDrawnByABrowser) {
  const std::string browser = find_browser();
  if (browser.empty()) GTEST_SKIP() << "no browser is installed: Debian's package is chromium";
  const TemporaryFolder folder;
  write_run(folder.path());
  // Makes the browser report its layout of the page, as text that --dump-dom shows.
  const std::string probe =
      "<script>onload=()=>{const s=[...document.querySelectorAll('svg')];const b=s.map(e=>e.getBoundingClientRect());"
      "const p=[...document.querySelectorAll('path')].map(e=>Math.round(e.getTotalLength()));"
      "document.body.append('PROBE '+JSON.stringify({charts:s.length,narrowest:Math.min(...b.map(r=>r.width)),"
      "lowest:Math.min(...b.map(r=>r.height)),wide:document.documentElement.scrollWidth<=innerWidth,"
      "shortest:Math.min(...p)})+' END')}</script>";
  const std::string page = folder / "page.html";
  write_file_atomically(page, html_report(read_report_data(folder.path())) + probe);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{browser,
                                       "--headless",
                                       "--no-sandbox",
                                       "--disable-gpu",
                                       "--disable-dev-shm-usage",
                                       "--user-data-dir=" + (folder / "profile"),
                                       "--window-size=1280,1600"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back("file://" + page);
    return run_program(arguments, {}, std::chrono::seconds(120));
  };
  const ProgramEnd dump = run({"--dump-dom", "--virtual-time-budget=2000"});
  ASSERT_EQ(dump.code, 0) << dump.err;
  const std::size_t at = dump.out.rfind("PROBE {");
  ASSERT_NE(at, std::string::npos) << dump.out.substr(0, 2000);
  const auto seen = nlohmann::json::parse(dump.out.substr(at + 6, dump.out.find(" END", at) - at - 6));
  EXPECT_EQ(seen["charts"], 8);
  EXPECT_GT(seen["narrowest"], 300) << seen;
  EXPECT_GT(seen["lowest"], 60) << seen;
  EXPECT_TRUE(seen["wide"].get<bool>()) << "it must not need scrolling sideways";
  EXPECT_GT(seen["shortest"], 100) << "every line is drawn";
  const std::string picture = folder / "page.png";
  ASSERT_EQ(run({"--screenshot=" + picture}).code, 0);
  const std::string png = read_file(picture);
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_GT(png.size(), 30'000u) << "an empty page is a few kilobytes";
}

}  // namespace
}  // namespace lockstep
