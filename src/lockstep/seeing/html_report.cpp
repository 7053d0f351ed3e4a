#include "lockstep/seeing/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lockstep/seeing/chart/line_chart.h"
#include "lockstep/seeing/chart/svg_text.h"
#include "lockstep/seeing/report_about.h"

namespace lockstep {
namespace {

constexpr const char* kReportStyle = R"(
:root{--back:#fff;--card:#f6f7f9;--text:#1c2330;--faint:#667085;--line:#dfe3ea}
@media(prefers-color-scheme:dark){:root{--back:#14171c;--card:#1e232b;--text:#e6e9ef;--faint:#98a2b3;--line:#343b47}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:24px;background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:28px 0 10px}
.source{color:var(--faint);margin:0 0 16px;overflow-wrap:anywhere}
.tiles{margin-top:16px;display:flex;flex-wrap:wrap;gap:10px}.tile{background:var(--card);border-radius:8px;padding:8px 14px}
.tile b{display:block;font-size:19px;font-weight:600}.tile span{color:var(--faint);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
.chart{width:100%;height:auto;background:var(--card);border-radius:8px;padding:6px}
.chart text{font:12px system-ui,sans-serif;fill:var(--faint)}.chart .title{font-size:14px;font-weight:600;fill:var(--text)}
.grid{stroke:var(--line)}path{fill:none;stroke-width:1.8;stroke-linejoin:round}
.series0{--c:#2f6fde}.series1{--c:#d9622b}.series2{--c:#2a9d62}.series3{--c:#9b51c9}.series4{--c:#c2388b}.series5{--c:#8a7a12}
g[class^=series] path{stroke:var(--c)}g[class^=series] .mark,rect[class^=series]{fill:var(--c)}
.chart text.legend{fill:var(--c)}
table{border-collapse:collapse;width:100%}td{border-bottom:1px solid var(--line);padding:4px 10px 4px 0;vertical-align:top}
td:first-child{color:var(--faint);white-space:nowrap;width:1%;padding-right:24px}td{overflow-wrap:anywhere}
@media(max-width:640px){body{padding:14px}tr{display:block;border-bottom:1px solid var(--line);padding:4px 0}
td,td:first-child{display:block;width:auto;border:0;padding:0;white-space:normal}}
.warning{border-left:4px solid #d9622b;background:var(--card);padding:8px 14px;margin:8px 0;border-radius:4px}
)";

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escaped(value), html_escaped(name));
}

std::string table_of(const ReportRows& rows) {
  std::string html = "<table>\n";
  for (const auto& [name, value] : rows) {
    html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", html_escaped(name), html_escaped(value));
  }
  return html + "</table>\n";
}

bool is_prefixed(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Whether the name is an evaluation's: "eval_loss", "eval_validation_loss"...
bool is_evaluation(const std::string& name) { return is_prefixed(name, "eval_"); }

bool is_loss(const std::string& name) {
  return name == "loss" || (is_evaluation(name) && name.size() >= 5 && name.substr(name.size() - 5) == "_loss");
}

bool is_speed_of_evaluation(const std::string& name) {
  return is_evaluation(name) &&
         (name.find("_per_second") != std::string::npos || name.find("_runtime") != std::string::npos);
}

std::vector<ChartLine> series_where(const ReportData& data, bool (*wanted)(const std::string&)) {
  std::vector<ChartLine> series;
  for (const auto& [name, points] : data.logs) {
    if (wanted(name) && !points.empty()) series.push_back({name, points});
  }
  return series;
}

// From the beginning to the last step of any series.
std::vector<double> whole_training(const ReportData& data) {
  double last = 0;
  for (const auto* group : {&data.logs, &data.rates, &data.memory}) {
    for (const auto& [name, points] : *group) {
      if (!points.empty()) last = std::max(last, points.back().first);
    }
  }
  return {0, last};
}

std::string charts_of(const ReportData& data) {
  std::string html;
  ChartXAxis steps;
  steps.also_shown = whole_training(data);
  const auto add = [&](const std::string& title, const std::vector<ChartLine>& series, const std::string& unit = "") {
    if (!series.empty()) html += line_chart_svg(title, series, unit, steps) + "\n";
  };
  add("loss", series_where(data, is_loss));
  for (const char* name : {"learning_rate", "grad_norm"}) {
    const auto found = data.logs.find(name);
    if (found != data.logs.end()) add(name, {{name, found->second}});
  }
  for (const auto& [name, points] : data.logs) {
    if (is_evaluation(name) && !is_loss(name) && !is_speed_of_evaluation(name)) add(name, {{name, points}});
  }
  for (const auto& [name, points] : data.rates) add("throughput: " + name, {{name, points}});
  std::vector<ChartLine> memory;
  for (const auto& [name, points] : data.memory) {
    ChartLine in_mebibytes{name, points};
    for (auto& point : in_mebibytes.points) point.second /= 1 << 20;
    memory.push_back(std::move(in_mebibytes));
  }
  add("memory of rank 0", memory, " MiB");
  if (!data.phases.empty()) html += share_bar_svg("time per phase", data.phases) + "\n";
  return html;
}

std::string tiles_of(const ReportData& data) {
  std::string html;
  for (const auto& [name, value] : data.facts) {
    if (name != "took") html += tile(value, name);  // the table has it
  }
  for (const auto& [name, points] : data.logs) {
    const bool is_result = name == "loss" || (is_prefixed(name, "train_") && name != "train_runtime");
    if (is_result && !points.empty()) html += tile(short_number(points.back().second), "last " + name);
  }
  return html;
}

}  // namespace

std::string html_report(const ReportData& data) {
  const auto path = std::filesystem::absolute(data.folder).lexically_normal();
  const std::string name = (path.filename().empty() ? path.parent_path() : path).filename().string();
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}: training report</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"source\">from {2}</p>\n",
      html_escaped(name), kReportStyle, html_escaped(data.source));
  for (const std::string& warning : data.warnings) {
    html += "<div class=\"warning\">" + html_escaped(warning) + "</div>\n";
  }
  if (const ReportRows rows = summary_rows(data); !rows.empty()) html += "<h2>What was trained</h2>\n" + table_of(rows);
  html += "<div class=\"tiles\">\n" + tiles_of(data) + "</div>\n";
  html += "<h2>Over the steps</h2>\n<div class=\"charts\">\n" + charts_of(data) + "</div>\n";
  if (!data.checkpoints.empty()) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& [step, text] : data.checkpoints) rows.emplace_back(fmt::format("checkpoint-{}", step), text);
    html += "<h2>Checkpoints</h2>\n" + table_of(rows);
  }
  if (!data.arguments.empty()) html += "<h2>Configuration</h2>\n" + table_of(data.arguments);
  return html + "</body>\n</html>\n";
}

}  // namespace lockstep
