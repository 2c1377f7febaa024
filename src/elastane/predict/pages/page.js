"use strict";
const charts = JSON.parse(document.getElementById("data").textContent);
for (const [id, figure] of Object.entries(charts)) {
  const layout = Object.assign({
    margin: {t: 10, r: 20, b: 50, l: 60}, height: 380, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: "system-ui, sans-serif", size: 13}, legend: {orientation: "h", y: 1.12},
  }, figure.layout);
  Plotly.newPlot(id, figure.data, layout, {displayModeBar: false, responsive: true});
}
