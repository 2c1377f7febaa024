"use strict";
(() => {
  const drawn = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // What depends on the theme is set here; the figure itself knows nothing of it.
  function redraw() {
    const [ink, line, paper] = [colour("--ink"), colour("--line"), colour("--paper")];
    const axis = { gridcolor: line, linecolor: line, tickcolor: line, zeroline: false };
    const axes = Object.entries(drawn.layout)
      .filter(([key]) => /^[xy]axis\d*$/.test(key))
      .map(([key, own]) => [key, { ...axis, ...own }]);
    const layout = {
      ...drawn.layout, ...Object.fromEntries(axes),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 70, r: 20, t: 34, b: 46 },
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 12, color: ink },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
      hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink } },
    };
    Plotly.react("charts", drawn.data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  }
  dark.addEventListener("change", redraw);
  redraw();
})();
