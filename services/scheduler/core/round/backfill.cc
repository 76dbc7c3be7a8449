#include "services/scheduler/core/round/backfill.h"

#include <algorithm>
#include <utility>

namespace capstan::scheduler::round {
namespace {

// Moves the workspace to the state after the first `to` departures from that after `from`.
void Move(Workspace& workspace, const std::vector<Departure>& departures, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) workspace.Give(*departures[i].shape, *departures[i].runs, 1);
  for (size_t i = from; i > to; --i) {
    workspace.Give(*departures[i - 1].shape, *departures[i - 1].runs, -1);
  }
}

void Bound(Workspace& workspace, size_t mark, Reservation& reservation) {
  const NodeRows& rows = workspace.rows();
  for (const TaskRun& run : reservation.runs) {
    const int position = rows.position(run.node);
    NodeBound bound;
    std::copy_n(rows.free(position), rows.width(), bound.left.begin());
    bound.gpus = rows.gpus(position);
    reservation.bounds.emplace_back(run.node, std::move(bound));
  }
  workspace.UndoTo(mark);
  for (const auto& [node, left] : reservation.bounds) {
    workspace.SetBound(rows.position(node), left);
  }
}

}  // namespace

Departure DepartureOf(const Snapshot& snapshot, GangIndex gang, absl::Time now,
                      absl::Duration assumed_duration) {
  const Gang& entry = snapshot.gangs[gang];
  Departure departure;
  departure.gang = gang;
  departure.order = gang;
  departure.shape = snapshot.shapes[entry.shape].get();
  departure.runs = entry.runs;
  if (entry.state == GangState::kEnding) {
    departure.end = now;
    return departure;
  }
  departure.assumed = entry.declared == absl::InfiniteDuration();
  const absl::Time started = entry.state == GangState::kRunning ? entry.started : now;
  departure.end = started + (departure.assumed ? assumed_duration : entry.declared);
  if (departure.end <= now) {
    departure.assumed = true;
    departure.end = now + std::max(now - started, absl::Seconds(1));
  }
  return departure;
}

absl::optional<Reservation> Reserve(Workspace& workspace, GangPlacer& placer, GangIndex gang,
                                    std::vector<Departure> departures, absl::Time now) {
  const Snapshot& snapshot = workspace.snapshot();
  const GangShape& shape = *snapshot.shapes[snapshot.gangs[gang].shape];
  return Reserve(workspace, placer, gang, {{now, &shape}}, std::move(departures));
}

absl::optional<Reservation> Reserve(Workspace& workspace, GangPlacer& placer, GangIndex gang,
                                    const std::vector<Beginning>& beginnings,
                                    std::vector<Departure> departures) {
  std::sort(departures.begin(), departures.end(), [](const Departure& a, const Departure& b) {
    return a.end != b.end ? a.end < b.end : a.order < b.order;
  });
  const size_t mark = workspace.Mark();
  size_t at = 0;
  const auto fits_after = [&](size_t gone, const GangShape& shape) {
    Move(workspace, departures, at, gone);
    at = gone;
    const size_t here = workspace.Mark();
    const bool placed = placer.Place(shape, Plane::kNow).has_value();
    workspace.UndoTo(here);
    return placed;
  };
  // How many have gone before the time, or by then.
  const auto gone_before = [&departures](absl::Time time, bool or_at) {
    const auto end = std::partition_point(
        departures.begin(), departures.end(),
        [time, or_at](const Departure& d) { return d.end < time || (or_at && d.end == time); });
    return static_cast<size_t>(end - departures.begin());
  };
  for (size_t b = 0; b < beginnings.size(); ++b) {
    const GangShape& shape = *beginnings[b].shape;
    const bool is_last = b + 1 == beginnings.size();
    const size_t first = b == 0 ? 0 : gone_before(beginnings[b].from, /*or_at=*/true);
    size_t high =
        is_last ? departures.size() : gone_before(beginnings[b + 1].from, /*or_at=*/false);
    // Within one beginning what fits goes on fitting as others go.
    if (!fits_after(high, shape)) continue;
    // Fits after `high` departures, and not (as far as was tried) after `low`.
    size_t low = first;
    if (b > 0 && low < high && fits_after(low, shape)) high = low;
    while (low + 1 < high) {
      const size_t middle = low + (high - low) / 2;
      (fits_after(middle, shape) ? high : low) = middle;
    }
    Move(workspace, departures, at, high);
    Reservation reservation;
    reservation.gang = gang;
    reservation.start = beginnings[b].from;
    if (high > first) reservation.start = std::max(reservation.start, departures[high - 1].end);
    for (size_t i = 0; i < high; ++i) reservation.assumed |= departures[i].assumed;
    reservation.runs = *placer.Place(shape, Plane::kNow);
    Bound(workspace, mark, reservation);
    return reservation;
  }
  workspace.UndoTo(mark);
  return absl::nullopt;
}

}  // namespace capstan::scheduler::round
