GET /page.js HTTP/1.1
Host: localhost:9476
Connection: close

